//! An *export* is a model in the files of one of the formats that are known: those of llama2.c, those that Hugging Face's
//! transformers reads, or the project's own. What is exported may come from any of them, so that this also converts the
//! models of others.
//!
//! It knows names of files; what is in them is `inferscope_core`'s.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use inferscope_core::{ElementType, Imported, NamedFile, Tokenizer, import};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The model's files: a checkpoint and its tokenizer, and config.json beside a model.safetensors
    #[arg(long, required = true, num_args = 1..)]
    model: Vec<PathBuf>,
    /// The format to write
    #[arg(long, value_enum)]
    to: Format,
    /// How the Inferscope format stores matrices [default: int8]
    #[arg(long, value_enum)]
    element: Option<Element>,
    /// What the checkpoint and its tokenizer are called; transformers knows its files by fixed names
    #[arg(long, default_value = "model")]
    name: String,
    /// The folder for the files
    #[arg(long)]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// NAME.bin and NAME.tokenizer.bin
    Llama2c,
    /// model.safetensors, config.json, tokenizer.json and tokenizer_config.json
    Safetensors,
    /// NAME.infer and NAME.tokenizer.bin
    Inferscope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Element {
    F32,
    F16,
    Int8,
}

impl From<Element> for ElementType {
    fn from(element: Element) -> Self {
        match element {
            Element::F32 => Self::F32,
            Element::F16 => Self::F16,
            Element::Int8 => Self::Int8,
        }
    }
}

/// Reads a model, converts it and writes its files, saying which.
///
/// # Errors
/// When a file can not be read or written, when the files are no model, or when the format can not express it.
pub fn run(args: &Args) -> Result<()> {
    if args.element.is_some() && args.to != Format::Inferscope {
        bail!("--element is for the Inferscope format; the others store 32-bit numbers");
    }
    let files: Vec<NamedFile> = args.model.iter().map(read).collect::<Result<_>>()?;
    let imported = import(&files)?;
    let element = args.element.unwrap_or(Element::Int8).into();
    let exported = export(&imported, args.to, element, &args.name)?;
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make the folder {}", args.out.display()))?;
    for file in exported {
        let path = args.out.join(&file.name);
        fs::write(&path, &file.bytes).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{} ({} bytes)", path.display(), file.bytes.len());
    }
    Ok(())
}

fn read(path: &PathBuf) -> Result<NamedFile> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(NamedFile { name, bytes })
}

/// A model's files in a format. `element` is for the Inferscope format.
///
/// # Errors
/// When the format's tokenizer can not express this one.
pub fn export(imported: &Imported, to: Format, element: ElementType, name: &str) -> Result<Vec<NamedFile>> {
    let Imported { checkpoint, tokenizer } = imported;
    let file = |name: String, bytes: Vec<u8>| NamedFile { name, bytes };
    let tokenizer_bin = || -> Result<_> { Ok(file(format!("{name}.tokenizer.bin"), tokenizer.to_llama2c()?)) };
    let tokenizer_json = |name| -> Result<_> { Ok(file(name, tokenizer.to_tokenizer_json()?.into_bytes())) };
    Ok(match to {
        Format::Llama2c => vec![file(format!("{name}.bin"), checkpoint.to_llama2c()), tokenizer_bin()?],
        Format::Safetensors => vec![
            file("model.safetensors".into(), checkpoint.to_safetensors()),
            file("config.json".into(), checkpoint.config_json(tokenizer).into_bytes()),
            tokenizer_json("tokenizer.json".into())?,
            file("tokenizer_config.json".into(), tokenizer_config(tokenizer, checkpoint.shape.context).into_bytes()),
        ],
        Format::Inferscope => vec![
            file(format!("{name}.infer"), checkpoint.to_inferscope(element)),
            // The smaller file, unless the tokenizer does what it can not say.
            tokenizer_bin().or_else(|_| tokenizer_json(format!("{name}.tokenizer.json")))?,
        ],
    })
}

/// `tokenizer_config.json`, which tells transformers how to wrap `tokenizer.json`.
fn tokenizer_config(tokenizer: &Tokenizer, context: usize) -> String {
    let vocabulary = tokenizer.vocabulary();
    let name = |id: u32| String::from_utf8_lossy(&vocabulary.pieces[id as usize].bytes).into_owned();
    let end =
        (0..vocabulary.pieces.len() as u32).filter(|&id| tokenizer.is_end(id)).max_by_key(|&id| id != vocabulary.bos);
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": name(vocabulary.bos),
        "eos_token": end.map(name),
        "model_max_length": context,
        "clean_up_tokenization_spaces": false,
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use inferscope_core::Checkpoint;

    use super::*;

    /// A model of one layer with weights that are no two alike, and a tokenizer of its seven tokens.
    fn model() -> Imported {
        let header = [8, 12, 1, 2, 1, 7, 4];
        let elements = 7 * 8 + 8 * 2 + 2 * 64 + 2 * 32 + 3 * 96 + 8 + 4 * 4;
        let weights = (0..elements).flat_map(|i| ((i as f32).sin()).to_le_bytes());
        let bytes: Vec<u8> = header.iter().flat_map(|field: &i32| field.to_le_bytes()).chain(weights).collect();
        let mut tokenizer = 5i32.to_le_bytes().to_vec();
        for piece in ["<unk>", "<s>", "</s>", " ", "a", "b", " ab"] {
            tokenizer.extend([0; 4]);
            tokenizer.extend((piece.len() as i32).to_le_bytes());
            tokenizer.extend(piece.bytes());
        }
        Imported { checkpoint: Checkpoint::parse(&bytes).unwrap(), tokenizer: Tokenizer::parse(&tokenizer, 7).unwrap() }
    }

    #[test]
    fn what_is_exported_can_be_imported() {
        let model = model();
        for (to, names) in [
            (Format::Llama2c, vec!["fox.bin", "fox.tokenizer.bin"]),
            (Format::Safetensors, vec!["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]),
            (Format::Inferscope, vec!["fox.infer", "fox.tokenizer.bin"]),
        ] {
            let files = export(&model, to, ElementType::F32, "fox").unwrap();
            assert_eq!(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), names);
            let imported = import(&files).unwrap();
            assert_eq!(imported.checkpoint, model.checkpoint, "{to:?}");
            assert_eq!(imported.tokenizer.vocabulary(), model.tokenizer.vocabulary(), "{to:?}");
        }
    }

    #[test]
    fn files_are_read_and_written() {
        #[derive(Parser)]
        struct Cli {
            #[command(flatten)]
            args: Args,
        }
        let folder = std::env::temp_dir().join(format!("inferscope-export-{}", std::process::id()));
        let run = |arguments: &[&str]| {
            let paths = |argument: &&str| match argument.contains('.') || *argument == "out" {
                true => folder.join(argument).into_os_string(),
                false => argument.into(),
            };
            run(&Cli::parse_from(["export".into()].into_iter().chain(arguments.iter().map(paths))).args)
        };
        fs::create_dir_all(&folder).unwrap();
        for file in export(&model(), Format::Llama2c, ElementType::F32, "fox").unwrap() {
            fs::write(folder.join(file.name), file.bytes).unwrap();
        }
        run(&["--model", "fox.bin", "fox.tokenizer.bin", "--to", "inferscope", "--out", "out"]).unwrap();
        let written = fs::read(folder.join("out/model.infer")).unwrap();
        assert_eq!(written, model().checkpoint.to_inferscope(ElementType::Int8));

        let error = run(&["--model", "fox.bin", "--to", "llama2c", "--out", "out"]).unwrap_err();
        assert!(error.to_string().starts_with("the checkpoint fox.bin also needs its tokenizer"), "{error}");
        let error = run(&["--model", "none.bin", "--to", "llama2c", "--out", "out"]).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
        let error = run(&["--model", "fox.bin", "--to", "llama2c", "--element", "f16", "--out", "out"]).unwrap_err();
        assert!(error.to_string().starts_with("--element is for the Inferscope format"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
