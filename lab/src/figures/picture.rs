//! A figure as a picture: bars, or lines over an axis, with the rounds' spread as whiskers.
//!
//! In: what a run found. Out: SVG that stands in a page and takes its colour of text. Never here: a file, a colour that
//! alone tells two contenders apart (their names are drawn too).

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::result::{Found, Point, Series, Side, short};

const WIDTH: u32 = 760;
const ROW: u32 = 46;
const LINES_HEIGHT: u32 = 380;
/// For axes and whiskers: seen on white and on black.
const GREY: RGBColor = RGBColor(128, 128, 128);
const OURS: RGBColor = RGBColor(0, 114, 178);
const MYSQL: RGBColor = RGBColor(213, 94, 0);
const MORE: [RGBColor; 4] =
    [RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167), RGBColor(160, 130, 20)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws what was found. `mark`: where the seed's ratio would put the changed side, in the figure's unit.
///
/// # Errors
/// The picture cannot be drawn.
pub(crate) fn svg(found: &Found, mark: Option<f64>) -> Result<String> {
    let mut out = String::new();
    let height = match found.axis {
        Some(_) => LINES_HEIGHT,
        None => 64 + ROW * u32::try_from(found.series.len().max(1))?,
    };
    {
        let area = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
        match found.axis {
            Some(axis) => lines(&area, found, axis)?,
            None => bars(&area, found, mark)?,
        }
        area.present().map_err(|error| anyhow!("{error}"))?;
    }
    // The page scales it.
    Ok(out.replacen("<svg ", "<svg role=\"img\" ", 1))
}

fn colour(series: &Series, at: usize) -> RGBColor {
    match series.side {
        Side::Slipstream => OURS,
        _ => MORE.get(at % MORE.len()).copied().unwrap_or(MYSQL),
    }
}

/// Least and largest round.
fn spread(point: &Point) -> (f64, f64) {
    point.values.iter().fold((f64::MAX, 0.0), |(least, most), &value| (least.min(value), f64::max(most, value)))
}

fn largest(found: &Found) -> f64 {
    let points = found.series.iter().flat_map(|series| &series.points);
    points.map(|point| spread(point).1).fold(0.0, f64::max).max(f64::MIN_POSITIVE)
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_text_style(&(WIDTH, LINES_HEIGHT)).color(&BLACK)
}

fn bars(area: &Area<'_>, found: &Found, mark: Option<f64>) -> Result<()> {
    let rows = found.series.len().max(1) as f64;
    let most = largest(found).max(mark.unwrap_or(0.0));
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_left(24)
        .margin_right(70)
        .x_label_area_size(44)
        .build_cartesian_2d(0.0..1.02 * most, 0.0..rows)
        .map_err(|error| anyhow!("{error}"))?;
    axes(&mut chart, 0, &|value: &f64| short(*value), None, found.unit)?;
    for (at, series) in found.series.iter().enumerate() {
        // The first one is at the top.
        let y = |down: f64| rows - at as f64 - down;
        let Some(point) = series.points.first() else { continue };
        let (median, (least, highest)) = (point.median(), spread(point));
        let colour = if series.side == Side::Slipstream { OURS } else { MYSQL };
        let middle = y(0.66);
        draw(&chart, Rectangle::new([(0.0, y(0.87)), (median, y(0.45))], colour.mix(0.85).filled()))?;
        draw(&chart, PathElement::new(vec![(least, middle), (highest, middle)], GREY.stroke_width(2)))?;
        for end in [least, highest] {
            draw(&chart, PathElement::new(vec![(end, middle - 0.12), (end, middle + 0.12)], GREY.stroke_width(2)))?;
        }
        draw(&chart, Text::new(series.name.clone(), (0.0, y(0.1)), text(18)))?;
        draw(&chart, Text::new(short(median), (highest.max(median) + most / 80.0, y(0.5)), text(18)))?;
        if let (Some(mark), Side::Changed) = (mark, series.side) {
            draw(&chart, PathElement::new(vec![(mark, y(0.38)), (mark, y(0.94))], GREY.stroke_width(3)))?;
        }
    }
    Ok(())
}

fn lines(area: &Area<'_>, found: &Found, axis: &str) -> Result<()> {
    let mut places: Vec<&str> = Vec::new();
    for point in found.series.iter().flat_map(|series| &series.points) {
        if !places.contains(&point.at.as_str()) {
            places.push(&point.at);
        }
    }
    let place = |at: &str| places.iter().position(|other| *other == at).unwrap_or(0) as f64;
    let last = places.len().saturating_sub(1).max(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(200)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(-0.1..last + 0.1, 0.0..1.05 * largest(found))
        .map_err(|error| anyhow!("{error}"))?;
    let label = |value: &f64| match (value - value.round()).abs() < 0.01 && *value > -0.01 {
        true => places.get(value.round().max(0.0) as usize).map_or(String::new(), |&place| place.to_owned()),
        false => String::new(),
    };
    axes(&mut chart, 8, &label, Some(found.unit), axis)?;
    let mut names: Vec<(f64, &Series, RGBColor)> = Vec::new();
    for (at, series) in found.series.iter().enumerate() {
        let colour = colour(series, at);
        let line: Vec<(f64, f64)> = series.points.iter().map(|point| (place(&point.at), point.median())).collect();
        for point in &series.points {
            let (x, (least, most)) = (place(&point.at), spread(point));
            draw(&chart, PathElement::new(vec![(x, least), (x, most)], GREY.stroke_width(2)))?;
            match point.falls {
                true => draw(&chart, Circle::new((x, point.median()), 5, colour.stroke_width(2)))?,
                false => draw(&chart, Circle::new((x, point.median()), 4, colour.filled()))?,
            }
        }
        names.extend(line.last().map(|end| (end.1, series, colour)));
        draw(&chart, PathElement::new(line, colour.stroke_width(2)))?;
    }
    // Names stand at the lines' ends, moved so that none covers another.
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut free = 12;
    for (value, series, colour) in names {
        let (x, y) = chart.backend_coord(&(last, value));
        free = free.max(y - 7);
        let style = text(15).color(&colour);
        area.draw(&Text::new(series.name.clone(), (x + 20, free), style)).map_err(|error| anyhow!("{error}"))?;
        free += 16;
    }
    Ok(())
}

fn draw<'a, E>(chart: &Chart<'_, 'a>, element: E) -> Result<()>
where
    for<'e> &'e E: plotters::element::PointCollection<'e, (f64, f64)>,
    E: plotters::element::Drawable<SVGBackend<'a>>,
{
    chart.plotting_area().draw(&element).map_err(|error| anyhow!("{error}"))
}

/// Axes; without a name for y there are no labels of it.
fn axes(
    chart: &mut Chart<'_, '_>,
    y_labels: usize,
    x_label: &dyn Fn(&f64) -> String,
    y_name: Option<&str>,
    x_name: &str,
) -> Result<()> {
    let y_label = |value: &f64| if y_name.is_some() { short(*value) } else { String::new() };
    let mut mesh = chart.configure_mesh();
    // Along the values only: places have nothing between them.
    match y_name {
        Some(_) => mesh.disable_x_mesh(),
        None => mesh.disable_y_mesh(),
    };
    mesh.x_labels(8)
        .y_labels(y_labels)
        .x_label_formatter(x_label)
        .y_label_formatter(&y_label)
        .x_desc(x_name)
        .y_desc(y_name.unwrap_or_default())
        .axis_style(GREY)
        .bold_line_style(GREY.mix(0.3))
        .light_line_style(TRANSPARENT)
        .label_style(text(15))
        .draw()
        .map_err(|error| anyhow!("{error}"))
}
