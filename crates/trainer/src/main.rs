//! The command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use inferscope_core::Tokenizer;
use inferscope_trainer::corpus::Library;
use inferscope_trainer::stories::{self, HELD_OUT_SEED, Stories, TRAINING_SEED, VOCAB_SIZE};
use inferscope_trainer::{corpus_command, eval, export, train};

#[derive(Parser)]
#[command(about = "Makes Inferscope's models: corpus, tokenizer, training, evaluation, export")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print stories, or what the stories are like
    Corpus(corpus_command::Args),
    /// Learn the tokenizer from the stories and write its file; `train` does so too
    Tokenizer {
        /// Where to
        #[arg(long, default_value = "training/story.tokenizer.bin")]
        out: PathBuf,
    },
    /// Train a model on the stories, or go on where it was interrupted
    Train(train::Args),
    /// Measure models
    Eval(eval::Args),
    /// Convert models between file formats
    Export(export::Args),
}

fn main() -> Result<()> {
    match run(Cli::parse().command) {
        // Whoever reads along, like `head`, may have had enough.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        result => result,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Corpus(args) => corpus_command::run(&args),
        Command::Tokenizer { out } => write(&out, &stories::tokenizer_file(&Library::built_in())),
        Command::Train(args) => {
            let file = stories::tokenizer_file(&Library::built_in());
            write(&args.folder().join("tokenizer.bin"), &file)?;
            let tokenizer = Tokenizer::parse(&file, VOCAB_SIZE)?;
            let of_seed = |seed| Stories::new(Library::built_in(), tokenizer.clone(), seed);
            train::run(&args, &of_seed(TRAINING_SEED), &of_seed(HELD_OUT_SEED))
        }
        Command::Eval(args) => eval::run(&args),
        Command::Export(args) => export::run(&args),
    }
}

/// Writes a file, and the folder that it lies in.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
