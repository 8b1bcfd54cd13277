//! *Progress* is what a task tells while it works: which step of how many, and the time that went by.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

pub struct Progress {
    started: Instant,
    done: usize,
    total: usize,
}

impl Progress {
    pub fn new(total: usize) -> Self {
        Self { started: Instant::now(), done: 0, total }
    }

    /// Runs one step and says when it began and how long it took.
    ///
    /// # Errors
    /// Whatever the step's own error is.
    pub fn step<T>(&mut self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.done += 1;
        let label = format!("[{}/{}] {what}", self.done, self.total);
        say(&bold(&label));
        let began = Instant::now();
        let result = work();
        let word = if result.is_ok() { "done" } else { "FAILED" };
        let (step, all) = (readable(began.elapsed()), readable(self.started.elapsed()));
        say(&format!("[{}/{}] {word} in {step} ({all} in all)", self.done, self.total));
        result
    }
}

/// A line of our own on standard output, flushed: other programs write there in between.
pub fn say(line: &str) {
    println!("{line}");
    // A closed pipe is no reason to stop the work.
    let _ = std::io::stdout().flush();
}

fn bold(text: &str) -> String {
    if std::io::stdout().is_terminal() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
}

pub fn readable(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
