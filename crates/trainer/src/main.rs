//! The command line.

use std::path::PathBuf;

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
    /// Learn the tokenizer from the stories and write its file
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
    match Cli::parse().command {
        Command::Corpus(args) => corpus_command::run(&args),
        Command::Tokenizer { out } => {
            if let Some(folder) = out.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
            }
            std::fs::write(&out, stories::tokenizer_file(&Library::built_in()))
                .with_context(|| format!("cannot write {}", out.display()))
        }
        Command::Train(args) => {
            let tokenizer = Tokenizer::parse(&stories::tokenizer_file(&Library::built_in()), VOCAB_SIZE)?;
            let of_seed = |seed| Stories::new(Library::built_in(), tokenizer.clone(), seed);
            train::run(&args, &of_seed(TRAINING_SEED), &of_seed(HELD_OUT_SEED))
        }
        Command::Eval(args) => eval::run(&args),
        Command::Export(args) => export::run(&args),
    }
}
