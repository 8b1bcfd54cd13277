//! *Progress* is what a run tells whoever watches it: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);
/// Speed is measured over at least this long.
const SPEED_OVER: Duration = Duration::from_secs(10);

pub struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    last_line: Option<Instant>,
    speed: Speed,
}

/// Tokens per second over the last moments.
struct Speed {
    since: Instant,
    tokens: u64,
    per_second: Option<f64>,
}

impl Progress {
    /// For a run of `total` tokens of which `done` are done.
    pub fn new(total: u64, done: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {percent}% {wide_msg}").expect("a valid template");
            let bar = ProgressBar::new(total).with_style(style);
            bar.set_position(done);
            bar
        });
        let speed = Speed { since: Instant::now(), tokens: done, per_second: None };
        Self { bar, total, last_line: None, speed }
    }

    /// After a step: tokens done, the mean loss of late, and the latest loss on held-out stories.
    pub fn update(&mut self, tokens: u64, loss: f64, held_out_loss: Option<f64>) {
        self.speed.update(tokens);
        let speed = self.speed.per_second;
        let message = [
            Some(format!("{:.2} of {:.2} M tokens", millions(tokens), millions(self.total))),
            speed.map(|speed| format!("{speed:.0} tokens/s")),
            Some(format!("loss {loss:.3}")),
            held_out_loss.map(|loss| format!("held-out {loss:.3}")),
            speed.map(|speed| format!("{} left", duration(self.total.saturating_sub(tokens) as f64 / speed))),
        ];
        let message = message.into_iter().flatten().collect::<Vec<_>>().join(", ");
        match &self.bar {
            Some(bar) => {
                bar.set_position(tokens);
                bar.set_message(message);
            }
            None if self.last_line.is_none_or(|line| line.elapsed() >= LINE_EVERY) && speed.is_some() => {
                eprintln!("{message}");
                self.last_line = Some(Instant::now());
            }
            None => {}
        }
    }

    /// Leaves the last state on the screen.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
    }
}

impl Speed {
    fn update(&mut self, tokens: u64) {
        let elapsed = self.since.elapsed();
        if elapsed >= SPEED_OVER {
            self.per_second = Some((tokens - self.tokens) as f64 / elapsed.as_secs_f64());
            (self.since, self.tokens) = (Instant::now(), tokens);
        }
    }
}

fn millions(tokens: u64) -> f64 {
    tokens as f64 / 1e6
}

fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 => format!("{seconds:.0} s"),
        1..60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(12.4), "12 s");
        assert_eq!(duration(119.0), "2 min");
        assert_eq!(duration(4_000.0), "1 h 7 min");
    }
}
