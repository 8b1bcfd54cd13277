//! Reading `tokenizer.json`.

use std::collections::{BTreeMap, HashMap, HashSet};

use inferscope_trace::TokenId;
use serde_json::Value;

use super::{SPACE, SpecialTokens, TokenizerJsonError, character_of_byte};
use crate::format::shown::Shown;
use crate::tokenizer::joins::Joined;
use crate::tokenizer::words::Words;
use crate::tokenizer::{Joins, Kind, LeadingSpace, Rules, Start, Tokenizer, Unknown, byte_of_name};

/// Tokens that begin a text by these names, where nothing says which one does.
const BOS_NAMES: [&str; 5] = ["<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<|endoftext|>"];
const EOS_NAMES: [&str; 4] = ["</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>"];

impl Tokenizer {
    /// Reads a whole `tokenizer.json`. What it says itself about the token that begins a text goes before `special`.
    ///
    /// # Errors
    /// When it is not JSON, not byte-pair encoding of one of the two kinds, or does not fit together.
    pub fn from_tokenizer_json(file: &[u8], special: &SpecialTokens) -> Result<Self, TokenizerJsonError> {
        let json = |error: serde_json::Error| TokenizerJsonError::Json { cause: error.to_string() };
        let root: Value = serde_json::from_slice(file).map_err(json)?;
        let model = &root["model"];
        check_model(model)?;
        let names = Names::read(&root)?;
        let layout = Layout::read(&root)?;

        let unknown = match model["unk_token"].as_str() {
            Some(name) => {
                let token = names.id(name).ok_or(TokenizerJsonError::Field { field: "model.unk_token" })?;
                Unknown::Character { token, fused: model["fuse_unk"] == true }
            }
            None => Unknown::Dropped,
        };
        let bos = names.bos(&root, special).ok_or(TokenizerJsonError::NoBos)?;
        let ends = names.ends(special);
        let mut control: HashSet<TokenId> = names.special.iter().chain(&ends).copied().collect();
        control.insert(bos);
        if let Unknown::Character { token, .. } = unknown {
            control.insert(token);
        }

        let pairs = names.merges(model)?;
        let Layout { leading_space, words, start } = layout;
        let rules = Rules { leading_space, words, start, unknown, ends };
        let mut tokenizer = Self::empty(Joins::Pairs(pairs), rules, bos);
        let with_bytes = model["byte_fallback"] == true;
        for (id, name) in (0..).zip(&names.by_id) {
            let byte = byte_of_name(name.as_bytes()).filter(|_| with_bytes);
            match (control.contains(&id), byte, start) {
                (true, ..) => tokenizer.add(Kind::Control, name.clone().into_bytes()),
                (false, Some(byte), _) => tokenizer.add(Kind::Byte, vec![byte]),
                (false, None, Start::Characters) => tokenizer.add(Kind::Text, name.replace(SPACE, " ").into_bytes()),
                (false, None, Start::Bytes) => {
                    let bytes = bytes_of_characters(name).ok_or(TokenizerJsonError::NotByteLevel { id })?;
                    tokenizer.add(Kind::Text, bytes);
                }
            }
        }
        Ok(tokenizer)
    }
}

/// Whether the model is one whose joins are those of its merges and nothing else.
fn check_model(model: &Value) -> Result<(), TokenizerJsonError> {
    let listed = model["merges"].is_array();
    match model["type"].as_str() {
        Some("BPE") => {}
        None if listed => {}
        found => return Err(TokenizerJsonError::Kind { found: found.unwrap_or("(none)").to_string() }),
    }
    if !listed {
        return Err(TokenizerJsonError::Field { field: "model.merges" });
    }
    let off = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || value == "" || value == 0.0;
    let fields = [
        ("model.dropout", &model["dropout"]),
        ("model.continuing_subword_prefix", &model["continuing_subword_prefix"]),
        ("model.end_of_word_suffix", &model["end_of_word_suffix"]),
        ("model.ignore_merges", &model["ignore_merges"]),
    ];
    match fields.into_iter().find(|(_, value)| !off(value)) {
        Some((field, value)) => Err(TokenizerJsonError::Unsupported { field, found: Shown(value).to_string() }),
        None => Ok(()),
    }
}

/// The vocabulary by the names of the file.
struct Names {
    by_id: Vec<String>,
    ids: HashMap<String, TokenId>,
    special: Vec<TokenId>,
}

impl Names {
    fn read(root: &Value) -> Result<Self, TokenizerJsonError> {
        let field = |field| TokenizerJsonError::Field { field };
        let id_of = |id: &Value| id.as_u64().and_then(|id| TokenId::try_from(id).ok());
        let vocabulary = root["model"]["vocab"].as_object().ok_or(field("model.vocab"))?;
        let mut tokens = BTreeMap::new();
        let mut insert = |name: &str, id: TokenId| match tokens.insert(id, name.to_string()) {
            Some(other) if other != name => Err(TokenizerJsonError::SameId { id }),
            _ => Ok(()),
        };
        for (name, id) in vocabulary {
            insert(name, id_of(id).ok_or(field("model.vocab"))?)?;
        }
        let mut special = Vec::new();
        for added in root["added_tokens"].as_array().into_iter().flatten() {
            let id = id_of(&added["id"]).ok_or(field("added_tokens.id"))?;
            insert(added["content"].as_str().ok_or(field("added_tokens.content"))?, id)?;
            special.extend((added["special"] == true).then_some(id));
        }
        let last = tokens.len().saturating_sub(1);
        let wrong = tokens.keys().filter(|&&id| id as usize > last).count();
        if wrong > 0 {
            return Err(TokenizerJsonError::Ids { found: wrong, last });
        }
        let by_id: Vec<String> = tokens.into_values().collect();
        let ids = (0..).zip(&by_id).map(|(id, name)| (name.clone(), id)).collect();
        Ok(Self { by_id, ids, special })
    }

    fn id(&self, name: &str) -> Option<TokenId> {
        self.ids.get(name).copied()
    }

    /// The token that begins every text.
    fn bos(&self, root: &Value, special: &SpecialTokens) -> Option<TokenId> {
        let processor = &root["post_processor"];
        let template = match processor["processors"].as_array() {
            Some(processors) => processors.iter().find(|processor| processor["type"] == "TemplateProcessing"),
            None => Some(processor),
        };
        let first = template.and_then(|template| template["single"][0]["SpecialToken"]["id"].as_str());
        let known = special.bos.filter(|&bos| (bos as usize) < self.by_id.len());
        first.and_then(|name| self.id(name)).or(known).or_else(|| BOS_NAMES.into_iter().find_map(|name| self.id(name)))
    }

    /// The tokens that end a text.
    fn ends(&self, special: &SpecialTokens) -> Vec<TokenId> {
        if special.eos.is_empty() {
            return EOS_NAMES.into_iter().find_map(|name| self.id(name)).into_iter().collect();
        }
        special.eos.iter().copied().filter(|&eos| (eos as usize) < self.by_id.len()).collect()
    }

    /// What the listed pairs become; the first listed is the most urgent.
    fn merges(&self, model: &Value) -> Result<HashMap<(TokenId, TokenId), Joined>, TokenizerJsonError> {
        let mut pairs = HashMap::new();
        for (index, merge) in model["merges"].as_array().into_iter().flatten().enumerate() {
            let names = match merge.as_str() {
                Some(both) => both.split_once(' '),
                None => merge[0].as_str().zip(merge[1].as_str()),
            };
            let joined = names.and_then(|(left, right)| {
                let token = self.id(&format!("{left}{right}"))?;
                Some(((self.id(left)?, self.id(right)?), token))
            });
            let (pair, token) = joined.ok_or(TokenizerJsonError::Merge { index })?;
            pairs.entry(pair).or_insert(Joined { score: -(index as f32), token });
        }
        Ok(pairs)
    }
}

/// What is done to a text before it is encoded.
struct Layout {
    leading_space: LeadingSpace,
    words: Words,
    start: Start,
}

impl Layout {
    fn read(root: &Value) -> Result<Self, TokenizerJsonError> {
        let steps = |value: &Value, list: &str| match value["type"] == "Sequence" {
            true => value[list].as_array().cloned().unwrap_or_default(),
            false if value.is_null() => Vec::new(),
            false => vec![value.clone()],
        };
        let mut leading_space = LeadingSpace::Never;
        let mut marked = false;
        for step in steps(&root["normalizer"], "normalizers") {
            match step["type"].as_str() {
                Some("Prepend") if step["prepend"] == SPACE => leading_space = LeadingSpace::Always,
                Some("Replace") if step["pattern"]["String"] == " " && step["content"] == SPACE => marked = true,
                _ => return Err(unsupported("normalizer", &step)),
            }
        }
        let steps = steps(&root["pre_tokenizer"], "pretokenizers");
        let unless_there = |asked: bool| match asked {
            true if leading_space == LeadingSpace::Never => LeadingSpace::UnlessThereIsOne,
            _ => leading_space,
        };
        match steps.as_slice() {
            [] if marked => Ok(Self { leading_space, words: Words::None, start: Start::Characters }),
            [step] if step["type"] == "Metaspace" && step["replacement"] == SPACE => {
                let asked = match step["prepend_scheme"].as_str() {
                    Some(scheme) => scheme != "never",
                    None => step["add_prefix_space"] != false,
                };
                let words = if step["split"] == false { Words::None } else { Words::Spaces };
                Ok(Self { leading_space: unless_there(asked), words, start: Start::Characters })
            }
            [step] if step["type"] == "ByteLevel" && !marked && leading_space == LeadingSpace::Never => {
                let words = if step["use_regex"] == false { Words::None } else { Words::Gpt2 };
                let asked = step["add_prefix_space"] != false;
                Ok(Self { leading_space: unless_there(asked), words, start: Start::Bytes })
            }
            [step, ..] => Err(unsupported("pre_tokenizer", step)),
            [] => Err(unsupported("pre_tokenizer", &Value::Null)),
        }
    }
}

fn unsupported(field: &'static str, step: &Value) -> TokenizerJsonError {
    let found = step["type"].as_str().unwrap_or("(none)").to_string();
    TokenizerJsonError::Unsupported { field, found }
}

/// The bytes that a piece of a byte-level vocabulary stands for.
fn bytes_of_characters(piece: &str) -> Option<Vec<u8>> {
    let byte = |character| (0..=255).find(|&byte| character_of_byte(byte) == character);
    piece.chars().map(byte).collect()
}
