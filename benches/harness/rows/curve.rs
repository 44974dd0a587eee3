//! The curve shows how throughput and times depend on the number of connections.
//!
//! `cargo bench -- curve` sends codes over HTTP with 1 to 1,024 connections, beside an echo that
//! syncs a record for each request, prints a table and writes a picture of it.

use std::fmt::Write;
use std::sync::Arc;

use super::otp_http::{DURABLE, Sends, Servers};
use crate::client::Client;
use crate::measure::{Measured, Pair, Phones, alternate};
use crate::scale::Scale;
use crate::{Result, setup};

/// The word on the command line.
pub(crate) const NAME: &str = "curve";

const CONNECTIONS: &[usize] = &[1, 16, 64, 256, 1024];
/// The connections of a test of the harness itself.
const FEW_CONNECTIONS: &[usize] = &[1, 4];

/// The results of both sides with this number of connections.
type Step = (usize, Pair);

/// Measures and prints the curve; writes the picture unless this is a test.
pub(crate) fn run(scale: &Scale, smoke: bool) -> Result<()> {
    let servers = Servers::start(&DURABLE)?;
    let phones = Arc::new(Phones::new());
    let mut steps: Vec<Step> = Vec::new();
    for &connections in if smoke { FEW_CONNECTIONS } else { CONNECTIONS } {
        eprintln!("{connections} connections …");
        let request = servers.send_request()?;
        let drive = |server, expected, time| {
            let script = || Sends::new(&request, &phones, expected);
            Client::connect(server, connections)?.drive(time, script)
        };
        let pair = alternate(
            scale,
            |time| drive(servers.address(), Sends::ANSWER, time),
            |time| drive(servers.echo(), Sends::ECHO, time),
        )?;
        steps.push((connections, pair));
    }
    servers.stop()?;
    if smoke {
        return Ok(());
    }
    println!("{}", table(&steps));
    let path = setup::directory()?.join("curve.svg");
    std::fs::write(&path, picture(&steps))?;
    eprintln!("written to {}", path.display());
    Ok(())
}

fn table(steps: &[Step]) -> String {
    let mut table = String::from(
        "| connections | sends/s | p50 ms | p99 ms | p99.9 ms | echo/s | p50 ms | p99 ms | p99.9 ms \
         | ratio |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (connections, Pair { subject, reference }) in steps {
        let side = |it: &Measured| {
            format!("{:.0} | {:.2} | {:.2} | {:.2}", it.rate, it.p50_ms, it.p99_ms, it.p999_ms)
        };
        let (ours, theirs) = (side(subject), side(reference));
        let ratio = subject.rate / reference.rate;
        let written = writeln!(table, "| {connections} | {ours} | {theirs} | {ratio:.2} |");
        // A string takes everything that is written to it.
        debug_assert!(written.is_ok());
    }
    table
}

/// The sizes of the picture and of the field in it, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 50.0;
/// A line of each side: its name, its dashes, and the figure.
type Line = (&'static str, &'static str, fn(&Measured) -> f64);
const LINES: [Line; 3] = [
    ("p50", "none", |it| it.p50_ms),
    ("p99", "7 4", |it| it.p99_ms),
    ("p99.9", "2 3", |it| it.p999_ms),
];
const SENDS_COLOR: &str = "#0b62c4";
const ECHO_COLOR: &str = "#777777";

/// Places figures in the picture: throughput to the right, the logarithm of time upwards.
struct Field {
    rate_max: f64,
    /// The powers of ten at both ends.
    from: f64,
    to: f64,
}

impl Field {
    fn of(steps: &[Step]) -> Self {
        let sides = || steps.iter().flat_map(|(_, pair)| [&pair.subject, &pair.reference]);
        let times = || sides().flat_map(|side| [side.p50_ms, side.p999_ms]);
        Self {
            rate_max: sides().map(|side| side.rate).fold(1.0, f64::max) * 1.05,
            from: times().fold(1.0, f64::min).log10().floor(),
            to: times().fold(1.0, f64::max).log10().ceil(),
        }
    }

    fn x(&self, rate: f64) -> f64 {
        LEFT + rate / self.rate_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, ms: f64) -> f64 {
        let share = (ms.log10() - self.from) / (self.to - self.from);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self) -> String {
        let mut axes = String::new();
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for power in self.from as i32..=self.to as i32 {
            let ms = 10f64.powi(power);
            let y = self.y(ms);
            axes += &format!(
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{ms}</text>\n",
                LEFT - 6.0,
                y + 4.0
            );
        }
        let mut step = 10f64.powf(self.rate_max.log10().floor());
        if self.rate_max < 4.0 * step {
            step /= 2.0;
        }
        for at in 0..=(self.rate_max / step) as u32 {
            let rate = step * f64::from(at);
            let x = self.x(rate);
            axes += &format!(
                "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{rate:.0}</text>\n",
                bottom + 18.0
            );
        }
        axes + &format!(
            "<text x=\"{LEFT}\" y=\"20\">milliseconds</text>\
             <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">requests a second</text>\n",
            HEIGHT - 12.0
        )
    }

    /// Draws the lines of one side; the points of the first one show the number of connections.
    fn side(&self, name: &str, color: &str, points: &[(usize, Measured)]) -> String {
        let mut lines = String::new();
        for (line, dashes, figure) in LINES {
            let at = |it: &Measured| format!("{:.1},{:.1}", self.x(it.rate), self.y(figure(it)));
            let path: Vec<_> = points.iter().map(|(_, it)| at(it)).collect();
            lines += &format!(
                "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" \
                 stroke-dasharray=\"{dashes}\" points=\"{}\"><title>{name}, {line}</title>\
                 </polyline>\n",
                path.join(" ")
            );
        }
        for (connections, it) in points {
            let (x, y) = (self.x(it.rate), self.y(it.p50_ms));
            lines += &format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{color}\" text-anchor=\"middle\">\
                 {connections}</text>\n",
                y + 15.0
            );
        }
        lines
    }
}

/// Explains the colors and the dashes.
fn legend() -> String {
    let mut legend = String::new();
    let sides = [("durable sends", SENDS_COLOR), ("durable echo", ECHO_COLOR)];
    for (at, (name, color)) in (0..).zip(sides) {
        let x = 170.0 + 130.0 * f64::from(at);
        legend += &format!("<text x=\"{x}\" y=\"20\" fill=\"{color}\">{name}</text>\n");
    }
    for (at, (name, dashes, _)) in (0..).zip(LINES) {
        let x = 440.0 + 90.0 * f64::from(at);
        legend += &format!(
            "<path d=\"M{x} 16h28\" stroke=\"#333\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{}\" y=\"20\">{name}</text>\n",
            x + 34.0
        );
    }
    legend
}

fn picture(steps: &[Step]) -> String {
    let field = Field::of(steps);
    let of = |side: fn(&Pair) -> Measured| -> Vec<_> {
        steps.iter().map(|(connections, pair)| (*connections, side(pair))).collect()
    };
    let echo = field.side("durable echo", ECHO_COLOR, &of(|pair| pair.reference));
    let sends = field.side("durable sends", SENDS_COLOR, &of(|pair| pair.subject));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n{}{}{echo}{sends}</svg>\n",
        field.axes(),
        legend()
    )
}
