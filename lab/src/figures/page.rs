//! A figure's page, and the index of all: HTML without any other file.
//!
//! In: a stored figure; the registry and the folder of JSON documents. Out: pages for screens, in the light and the
//! dark, for paper and for the keyboard. Never here: a script, a request, a number that is not in the JSON document.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use replay::turns::median;
use serde_json::Value;

use super::entry::{Entry, How};
use super::picture;
use super::result::{Side, Stored, short};
use super::verdict::ROUNDS_MIN;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8886; --quiet: #666; }
@media (prefers-color-scheme: dark) { :root { --quiet: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; line-height: 1.25; }
blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line); }
figure { margin: 1rem 0; overflow-x: auto; }
figure:focus-visible, a:focus-visible { outline: 2px solid; }
svg { max-width: 100%; min-width: 34rem; height: auto; }
svg text[fill=\"#000000\"] { fill: currentColor; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.verdict { font-weight: 600; }
.quiet { color: var(--quiet); }
code { font-size: .9em; overflow-wrap: anywhere; }
@media print { body { max-width: none; font-size: 11px; } a { color: inherit; } svg { min-width: 0; } }
";

fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n",
        escaped(title)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The verdict in words, or the reason for having none.
pub(super) fn verdict_text(stored: &Stored) -> String {
    match stored.verdict {
        Some(verdict) => format!("verdict: {verdict}"),
        None if stored.quick => "no verdict: the quick form gives numbers only".to_owned(),
        None => format!("no verdict: {} rounds, of {ROUNDS_MIN} at least", stored.rounds),
    }
}

/// Page of a stored figure, whole.
///
/// # Errors
/// The picture cannot be drawn.
pub(super) fn page(stored: &Stored) -> Result<String> {
    let found = &stored.found;
    let base = found.series.iter().find(|series| series.side == Side::Base).and_then(|series| series.points.first());
    let mark = stored.seeds_ratio.zip(base).map(|(ratio, base)| ratio * base.median());
    let mut out = head(&format!("Figure {}", stored.title));
    let row = |name: &str, text: &str| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(name), escaped(text))
    };
    let _ = write!(
        out,
        "<p><a href=\"index.html\">All figures</a></p>\n<main>\n<h1>Figure {}: {}</h1>\n<blockquote>{}<br>\
         <span class=\"quiet\">seed {}, its number: {}</span></blockquote>\n<p class=\"verdict\">{}</p>\n",
        escaped(&stored.title),
        escaped(stored.question),
        escaped(stored.sentence),
        stored.seed,
        escaped(&stored.seeds_number),
        escaped(&verdict_text(stored)),
    );
    let _ = write!(
        out,
        "<figure tabindex=\"0\" aria-label=\"{}\">\n{}\n<figcaption class=\"quiet\">Medians of {} rounds; whiskers: least \
         and largest round{}.</figcaption>\n</figure>\n",
        escaped(&format!("{} by contender; the table below has the values", stored.plan.measure)),
        picture::svg(found, mark)?,
        stored.rounds,
        if mark.is_some() { "; the upright mark: the seed's ratio, from this base" } else { "" },
    );
    values(&mut out, stored);
    flames(&mut out, stored);
    out.push_str("<h2>What was compared</h2>\n<div class=\"scroll\"><table>\n");
    for (name, text) in [
        ("load", stored.plan.load),
        ("contenders differ in", stored.plan.factor),
        ("measured", stored.plan.measure),
        ("kind", stored.plan.kind.as_str()),
        ("agrees if", stored.plan.rule),
    ] {
        out.push_str(&row(name, text));
    }
    for (name, interval) in [("changed / base", stored.interval), ("base / base", stored.interval_again)] {
        if let Some(interval) = interval {
            out.push_str(&row(name, &interval.to_string()));
        }
    }
    for line in &found.shown {
        out.push_str(&row("a round showed", line));
    }
    for line in &found.notes {
        out.push_str(&row("note", line));
    }
    out.push_str("</table></div>\n<h2>How</h2>\n<div class=\"scroll\"><table>\n");
    out.push_str(&row("machine", &stored.conditions.to_string()));
    out.push_str(&row("MySQL", &found.mysql_version));
    out.push_str(&row("Slipstream's build", stored.build));
    if let Some(hash) = &found.hash {
        out.push_str(&row("hash of the rows of all", hash));
    }
    out.push_str(&row("took", &format!("{:.0} s", stored.seconds)));
    let _ = write!(
        out,
        "<tr><th scope=\"row\">again</th><td><code>{}</code></td></tr>\n</table></div>\n<p><a href=\"{}.json\">All \
         values</a></p>\n</main>\n</body>\n</html>\n",
        escaped(&stored.again),
        stored.number
    );
    Ok(out)
}

/// Stacks: a picture if inferno's program is there, and the text that others draw.
fn flames(out: &mut String, stored: &Stored) {
    if stored.found.folded.is_empty() {
        return;
    }
    let picture = crate::stacks::drawn(&stored.found.folded, &format!("Figure {}", stored.title));
    let picture = picture.as_deref().and_then(|svg| svg.find("<svg").and_then(|at| svg.get(at..)));
    let text = format!("<a href=\"{}.folded\">Folded stacks</a>", stored.number);
    let _ = match picture {
        Some(svg) => writeln!(
            out,
            "<h2>Stacks</h2>\n<figure tabindex=\"0\" aria-label=\"Flame graph\">\n{}\n<figcaption class=\"quiet\">Samples of \
             all rounds, drawn by inferno. {text}</figcaption>\n</figure>",
            without_scripts(svg)
        ),
        None => writeln!(
            out,
            "<h2>Stacks</h2>\n<p>{text} of all rounds, for any flame graph program; inferno's draws them here if it is on \
             PATH: <code>cargo install inferno</code>.</p>"
        ),
    };
}

/// A picture without the program that inferno puts into it: pages have none.
fn without_scripts(svg: &str) -> String {
    let mut out = String::new();
    let mut rest = svg;
    while let Some((before, after)) = rest.split_once("<script") {
        out.push_str(before);
        rest = after.split_once("</script>").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// The table of values.
fn values(out: &mut String, stored: &Stored) {
    let axis = stored.found.axis.unwrap_or_default();
    let _ = write!(
        out,
        "<div class=\"scroll\"><table>\n<tr><th scope=\"col\">contender</th><th scope=\"col\">{}</th><th \
         scope=\"col\">{}</th><th scope=\"col\">rounds</th><th scope=\"col\">options</th></tr>\n",
        escaped(axis),
        escaped(stored.found.unit)
    );
    for series in &stored.found.series {
        for point in &series.points {
            let rounds: Vec<String> = point.values.iter().map(|&value| short(value)).collect();
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&series.name),
                escaped(&point.at),
                short(point.median()),
                rounds.join(" "),
                escaped(&point.options)
            );
        }
    }
    out.push_str("</table></div>\n");
}

/// Writes the index of all figures, with what the folder has of each.
///
/// # Errors
/// The folder cannot be read or written.
pub(super) fn write_index(out: &Path, all: &[&Entry]) -> Result<()> {
    let path = out.join("index.html");
    let stored = |number: &str| {
        let document = serde_json::from_slice(&fs::read(out.join(format!("{number}.json"))).ok()?).ok()?;
        // A folder may keep the documents alone.
        let page = format!("{number}.html");
        Some((document, if out.join(&page).is_file() { page } else { format!("{number}.json") }))
    };
    fs::write(&path, index(all, &stored)).with_context(|| path.display().to_string())
}

/// Medians of a stored figure, by contender; of a long axis its ends.
fn medians(document: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_point = |point: &Value| {
        let values: Vec<f64> = list(&point["values"]).iter().filter_map(Value::as_f64).collect();
        let median = short(median(&values));
        match point["at"].as_str().unwrap_or_default() {
            "" => median,
            at => format!("{at}: {median}"),
        }
    };
    let of_series = |series: &Value| {
        let all: Vec<String> = list(&series["points"]).iter().map(of_point).collect();
        let shown = match all.as_slice() {
            [first, .., last] if all.len() > 4 => format!("{first} … {last}"),
            all => all.join(", "),
        };
        format!("{} {shown}", series["name"].as_str().unwrap_or_default())
    };
    let found = &document["found"];
    let all: Vec<String> = list(&found["series"]).iter().map(of_series).collect();
    format!("{} ({})", all.join("; "), found["unit"].as_str().unwrap_or_default())
}

/// The index. `stored` has a figure's JSON document and the file to link, if there is one.
fn index(all: &[&Entry], stored: &dyn Fn(&str) -> Option<(Value, String)>) -> String {
    let mut out = head("The documents' figures");
    out.push_str(
        "<main>\n<h1>The documents' figures</h1>\n<p>Every figure of the documents, whether it holds on this machine, and \
         what Slipstream makes of it. A verdict comes from six rounds at least; each page has its own machine.</p>\n\
         <div class=\"scroll\"><table>\n<tr><th scope=\"col\">figure</th><th scope=\"col\">question</th><th \
         scope=\"col\">here</th></tr>\n",
    );
    for entry in all {
        for number in entry.numbers {
            let found = stored(entry.name());
            let here = match (&entry.how, &found) {
                (How::Measured(_), Some((found, _))) => match found["verdict"].as_str() {
                    Some(verdict) => verdict.replace('-', " "),
                    None => format!("measured, {} rounds, no verdict", found["rounds"]),
                },
                (How::Measured(_), None) => "not measured yet".to_owned(),
                (How::Diagram(place), _) => format!("a diagram: {place}"),
                (How::NotHere(why), _) => format!("{}; it needs {why}", entry.state()),
            };
            let name = match &found {
                Some((_, file)) => format!("<a href=\"{file}\">{number}</a>"),
                None => (*number).to_owned(),
            };
            let medians = found.map_or(String::new(), |(document, _)| {
                format!("<br><span class=\"quiet\">{}</span>", escaped(&medians(&document)))
            });
            let (question, here) = (escaped(entry.question), escaped(&here));
            let _ = writeln!(out, "<tr><td>{name}</td><td>{question}</td><td>{here}{medians}</td></tr>");
        }
    }
    out.push_str("</table></div>\n</main>\n</body>\n</html>\n");
    out
}

#[cfg(test)]
mod tests {
    use replay::conditions::Conditions;

    use super::super::result::{Declared, Found, Point, Series};
    use super::*;

    fn stored(axis: Option<&'static str>) -> Stored {
        let series = |name: &str, side, at: &[(&str, f64)]| Series {
            name: name.into(),
            side,
            points: at
                .iter()
                .map(|(at, v)| Point { at: (*at).into(), values: vec![*v, v * 1.1], ..Point::default() })
                .collect(),
        };
        let places: &[(&str, f64)] = if axis.is_some() { &[("1", 10.0), ("8", 40.0)] } else { &[("", 10.0)] };
        Stored {
            number: "10-22",
            title: "10-22 = 11-11".into(),
            seed: "000",
            sentence: "a < b & \"c\"",
            seeds_number: "direction only".into(),
            seeds_ratio: Some(1.157),
            question: "Why?",
            plan: Declared { load: "load", factor: "factor", measure: "speed", kind: "ratio".into(), rule: "rule" },
            quick: true,
            rounds: 2,
            found: Found {
                unit: "tx/s",
                axis,
                series: vec![series("MySQL <1>", Side::Base, places), series("ours", Side::Slipstream, places)],
                ..Found::default()
            },
            interval: None,
            interval_again: None,
            verdict: None,
            conditions: Conditions::begin(),
            build: "b",
            seconds: 1.0,
            again: "slipstream lab figure 10-22 --quick".into(),
        }
    }

    #[test]
    fn a_page_stands_by_itself_and_escapes_what_it_quotes() {
        for axis in [None, Some("terminals")] {
            let page = page(&stored(axis)).unwrap();
            for part in ["<svg ", "a &lt; b &amp; &quot;c&quot;", "MySQL &lt;1&gt;", "no verdict", "--quick"] {
                assert!(page.contains(part), "{part}: {page}");
            }
            let outside = ["src=", "http://", "https://", "<script", "@import", "url("];
            let without_names = page.replace("http://www.w3.org/2000/svg", "");
            assert!(outside.iter().all(|part| !without_names.contains(part)), "{page}");
            assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
        }
    }

    #[test]
    fn stacks_are_linked_and_a_picture_of_them_has_no_script() {
        let mut with = stored(None);
        with.found.folded = "rpl;a;b 3\n".into();
        assert!(page(&with).unwrap().contains("<a href=\"10-22.folded\">"));
        assert!(!page(&stored(None)).unwrap().contains("folded"));
        assert_eq!(without_scripts("<svg><script a=\"b\">x</script><g/><script>y</script></svg>"), "<svg><g/></svg>");
    }

    #[test]
    fn the_index_has_all_numbers_and_links_what_is_there() {
        let all = super::super::registry();
        let points = serde_json::json!([{"at": "1", "values": [2.0, 4.0]}, {"at": "8", "values": [5.0]}]);
        let document = serde_json::json!({
            "rounds": 6,
            "verdict": "no-effect-here",
            "found": {"unit": "s", "series": [{"name": "MySQL", "points": points}]},
        });
        let there = |number: &str| (number == "10-22").then(|| (document.clone(), "10-22.html".to_owned()));
        let index = index(&all, &there);
        assert_eq!(index.matches("<tr><td>").count(), 60);
        assert!(index.contains("<a href=\"10-22.html\">11-11</a>") && index.contains("no effect here"));
        assert!(index.contains(">MySQL 1: 3.00, 8: 5.00 (s)</span></td>"), "{index}");
        assert!(index.contains("not measured yet") && index.contains("two NUMA nodes"));
    }
}
