//! `corpus`: prints stories, or checks the texts that they are told from.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use inferscope_core::Tokenizer;

use crate::corpus::{self, Library, PlotReport};
use crate::stories::{self, Encoder};

#[derive(clap::Args)]
pub struct Args {
    /// How many stories to print
    #[arg(long, default_value_t = 5)]
    stories: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only stories with this plot
    #[arg(long)]
    plot: Option<String>,
    /// Say what the corpus is like instead: counted over this many stories of each plot
    #[arg(long, num_args = 0..=1, default_missing_value = "300")]
    report: Option<u64>,
    /// Read the texts from a folder instead of the program itself
    #[arg(long)]
    texts: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let library = match &args.texts {
        Some(folder) => Library::from_folder(folder)?,
        None => Library::built_in(),
    };
    let mut out = std::io::stdout().lock();
    if let Some(stories) = args.report {
        let tokenizer = Tokenizer::parse(&stories::tokenizer_file(&library), stories::VOCAB_SIZE)?;
        let encoder = Encoder::new(tokenizer);
        let tokens = |text: &str| encoder.encode(text).len();
        return print_report(&corpus::report(&library, stories, args.seed, tokens, stories::CONTEXT)?, &mut out);
    }
    for index in 0..args.stories {
        let story = match &args.plot {
            Some(plot) => library.story_of(plot, args.seed, index)?,
            None => library.story(args.seed, index),
        };
        writeln!(out, "{}\n", story.text)?;
    }
    Ok(())
}

fn print_report(report: &corpus::Report, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "{:12} {:>6} {:>7} {:>9} {:>11} {:>10}",
        "plot", "words", "tokens", "too long", "nats/token", "own words"
    )?;
    for plot in &report.plots {
        let (words, tokens, too_long, nats) = (plot.words, plot.tokens, 100.0 * plot.too_long, plot.nats_per_token);
        let (name, own) = (&plot.plot, plot.own_words);
        writeln!(out, "{name:12} {words:6.0} {tokens:7.0} {too_long:7.1} % {nats:11.2} {own:10}")?;
    }
    let mean = |of: fn(&PlotReport) -> f64| report.plots.iter().map(of).sum::<f64>() / report.plots.len() as f64;
    let (words, tokens, too_long) =
        (mean(|plot| plot.words), mean(|plot| plot.tokens), 100.0 * mean(|plot| plot.too_long));
    let nats = mean(|plot| plot.nats_per_token);
    writeln!(out, "{:12} {words:6.0} {tokens:7.0} {too_long:7.1} % {nats:11.2}", "mean")?;
    writeln!(out, "{} plots, {} different words", report.plots.len(), report.word_types)?;
    writeln!(out, "{:.1} % of stories have a made-up name", report.invented * 100.0)?;
    Ok(())
}
