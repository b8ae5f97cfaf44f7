//! The result as a picture: transactions a second over the number of clients that wrote the log, a panel for each
//! number of workers and sync delay, a line for each way of stamping.

use std::fmt::Write as _;

use super::Stamps;
use super::report::{ClocksReport, Line, Recorded};

/// Size of a panel's plot, and the room around it, in pixels.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 260.0;
const ROOM: f64 = 64.0;
/// Name of the line for the sources themselves.
const WRITTEN: &str = "the source, writing it";
/// Told apart without colour vision too; the names stand at the lines' ends.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"];

pub(super) fn svg(report: &ClocksReport) -> String {
    let mut panels: Vec<(f64, u32)> = Vec::new();
    for line in &report.lines {
        if !panels.iter().any(|&(delay, workers)| is_in(line, delay, workers)) {
            panels.push((line.sync_delay_ms, line.workers));
        }
    }
    let (width, height) = (WIDTH + 3.5 * ROOM, (HEIGHT + 2.0 * ROOM) * panels.len().max(1) as f64 + ROOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (at, &(delay, workers)) in panels.iter().enumerate() {
        let top = ROOM + (HEIGHT + 2.0 * ROOM) * at as f64;
        let _ = writeln!(out, "<g transform=\"translate({ROOM} {top})\">");
        panel(&mut out, report, delay, workers);
        out.push_str("</g>\n");
    }
    let foot = format!(
        "{} transactions of {}; mysql {}; {}",
        report.transactions, report.workload, report.mysql_version, report.machine
    );
    let _ =
        writeln!(out, "<text x=\"8\" y=\"{:.0}\" font-size=\"10\">{}</text>\n</svg>", height - 12.0, escaped(&foot));
    out
}

fn is_in(line: &Line, delay: f64, workers: u32) -> bool {
    line.workers == workers && line.sync_delay_ms.to_bits() == delay.to_bits()
}

fn panel(out: &mut String, report: &ClocksReport, delay: f64, workers: u32) {
    let rate = |line: &Line| report.transactions as f64 / line.median_s().max(1e-9);
    let lines: Vec<&Line> = report.lines.iter().filter(|line| is_in(line, delay, workers)).collect();
    let reference = Stamps::Reference.name();
    let mut clients: Vec<u32> = lines.iter().filter(|l| l.stamped_by != reference).map(|l| l.clients).collect();
    clients.sort_unstable();
    clients.dedup();
    let own: Vec<&Recorded> = report.recorded.iter().filter(|one| !one.is_reference).collect();
    let written = |one: &Recorded| report.transactions as f64 / one.seconds.max(1e-9);
    let rates = lines.iter().map(|line| rate(line)).chain(own.iter().map(|one| written(one)));
    let most = nice(rates.fold(1.0, f64::max));
    let x = |of: u32| {
        let at = clients.iter().position(|&one| one == of).unwrap_or(0) as f64;
        WIDTH * (at + 0.5) / clients.len().max(1) as f64
    };
    let y = |rate: f64| HEIGHT * (1.0 - rate / most);
    let _ = writeln!(
        out,
        "<text x=\"0\" y=\"-16\" font-size=\"14\">{workers} workers, each sync {delay} ms longer: transactions a second</text>"
    );
    for step in 0..=4u8 {
        let value = most * f64::from(step) / 4.0;
        let _ = writeln!(
            out,
            "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#ddd\"/>\
             <text x=\"-6\" y=\"{1:.1}\" text-anchor=\"end\">{value:.0}</text>",
            y(value),
            y(value) + 4.0
        );
    }
    for &one in &clients {
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{one}</text>", x(one), HEIGHT + 18.0);
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">clients that wrote the log</text>",
        WIDTH / 2.0,
        HEIGHT + 36.0
    );
    let mut names: Vec<&str> = Vec::new();
    for line in &lines {
        if !names.contains(&line.stamped_by.as_str()) {
            names.push(&line.stamped_by);
        }
    }
    if !own.is_empty() {
        names.push(WRITTEN);
    }
    let mut labels: Vec<f64> = Vec::new();
    for (name, colour) in names.iter().zip(COLOURS.iter().cycle()) {
        let mut points: Vec<(f64, f64)> =
            lines.iter().filter(|l| l.stamped_by == *name).map(|l| (x(l.clients), y(rate(l)))).collect();
        if *name == WRITTEN {
            points = own.iter().map(|one| (x(one.clients), y(written(one)))).collect();
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(&(_, end)) = points.last() else { continue };
        if *name == reference {
            let _ = writeln!(
                out,
                "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{end:.1}\" y2=\"{end:.1}\" stroke=\"{colour}\" stroke-dasharray=\"5 4\"/>"
            );
        } else {
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            for (x, y) in &points {
                let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
        // Not over another one's name.
        let mut place = end;
        while labels.iter().any(|other| (other - place).abs() < 13.0) {
            place += 13.0;
        }
        labels.push(place);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            WIDTH + 8.0,
            place + 4.0,
            escaped(name)
        );
    }
}

/// The next of 1, 2, 4, 8, 10 times a power of ten: it divides by four into round numbers.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0].into_iter().map(|step| step * power).find(|&step| step >= value).unwrap_or(value)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(clients: u32, stamped_by: String, seconds: f64) -> Line {
        Line { sync_delay_ms: 0.0, workers: 8, clients, stamped_by, seconds: vec![seconds], retries: 0 }
    }

    fn recorded((clients, is_reference, seconds): (u32, bool, f64)) -> Recorded {
        Recorded { clients, is_reference, seconds }
    }

    #[test]
    fn a_line_a_stamping_and_a_point_a_recording() {
        let own = || Stamps::Source.name();
        let lines = vec![
            line(1, own(), 4.0),
            line(2, own(), 2.0),
            line(1, "relay, a<b".into(), 1.0),
            line(2, "relay, a<b".into(), 1.0),
            line(16, Stamps::Reference.name(), 1.0),
        ];
        let report = ClocksReport {
            lines,
            recorded: [(1, false, 2.0), (2, false, 1.0), (16, true, 0.5)].map(recorded).into(),
            workload: "oltp_read_write".into(),
            transactions: 1000,
            hash: String::new(),
            put_in_between: false,
            flush_log: 2,
            disk_sync_us: 100.0,
            mysql_version: "9.7.4".into(),
            machine: "one".into(),
            load_average: Default::default(),
        };
        let text = svg(&report);
        assert_eq!((text.matches("<polyline").count(), text.matches("<circle").count()), (3, 6));
        assert_eq!(text.matches("stroke-dasharray").count(), 1);
        assert!(text.contains("a&lt;b") && !text.contains("a<b") && text.contains("8 workers"), "{text}");
        // 250 and 500 of 1,000 a second, from the top.
        assert!(text.contains("points=\"115.0,195.0 345.0,130.0\""), "{text}");
    }

    #[test]
    fn the_scale_ends_at_a_round_number() {
        for (value, scale) in [(0.5, 1.0), (17.0, 20.0), (999.0, 1000.0), (1001.0, 2000.0), (5300.0, 8000.0)] {
            assert!((nice(value) - scale).abs() < 1e-6, "{value}: {}", nice(value));
        }
    }
}
