//! Writing `tokenizer.json`.

use std::collections::HashMap;

use inferscope_trace::TokenId;
use serde_json::{Map, Value, json};

use super::{SPACE, TokenizerJsonError, character_of_byte};
use crate::tokenizer::words::Words;
use crate::tokenizer::{Joins, Kind, LeadingSpace, Start, Tokenizer, Unknown, name_of_byte};

impl Tokenizer {
    /// The tokenizer as a `tokenizer.json` that adds the BOS token to every text.
    ///
    /// Where joins go by scores, each piece is listed with every pair that makes it, so that the same joins happen in
    /// the same order as long as no two pieces that compete have the same score.
    ///
    /// # Errors
    /// When two tokens would have the same name there, or a piece is no text.
    pub fn to_tokenizer_json(&self) -> Result<String, TokenizerJsonError> {
        let names = self.names()?;
        let mut vocabulary = Map::new();
        for (id, name) in names.iter().enumerate() {
            if vocabulary.insert(name.clone(), id.into()).is_some() {
                let reason = "two of its tokens would have the same name";
                return Err(TokenizerJsonError::NotExpressible { reason });
            }
        }
        let name = |id: TokenId| names[id as usize].as_str();
        let merges: Vec<Value> =
            self.pairs().into_iter().map(|(left, right)| json!([name(left), name(right)])).collect();
        let added: Vec<Value> = (0..)
            .zip(&self.kinds)
            .filter(|(_, kind)| **kind == Kind::Control)
            .map(|(id, _)| {
                json!({ "id": id, "content": name(id), "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true })
            })
            .collect();
        let bos = self.vocabulary.bos;
        let (unknown, fused) = match self.rules.unknown {
            Unknown::Byte(token) => (Some(name(token)), false),
            Unknown::Character { token, fused } => (Some(name(token)), fused),
            Unknown::Dropped => (None, false),
        };
        let (normalizer, pre_tokenizer, decoder) = self.layout();
        let begin = json!({ "SpecialToken": { "id": name(bos), "type_id": 0 } });
        let sequence = |id: &str, type_id: u32| json!({ "Sequence": { "id": id, "type_id": type_id } });
        let file = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added,
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [begin, sequence("A", 0)],
                "pair": [begin, sequence("A", 0), begin, sequence("B", 1)],
                "special_tokens": { name(bos): { "id": name(bos), "ids": [bos], "tokens": [name(bos)] } },
            },
            "decoder": decoder,
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": unknown,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": fused,
                "byte_fallback": self.kinds.contains(&Kind::Byte),
                "ignore_merges": false,
                "vocab": vocabulary,
                "merges": merges,
            },
        });
        Ok(format!("{file:#}\n"))
    }

    /// Every token as the file writes it, by id.
    fn names(&self) -> Result<Vec<String>, TokenizerJsonError> {
        let no_text = TokenizerJsonError::NotExpressible { reason: "one of its pieces is no text" };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| no_text.clone());
        let pieces = self.kinds.iter().zip(&self.vocabulary.pieces);
        let names = pieces.map(|(kind, piece)| match (kind, self.rules.start) {
            (Kind::Control, _) => text(&piece.bytes),
            (Kind::Byte, _) => Ok(name_of_byte(piece.bytes[0])),
            (Kind::Text, Start::Characters) => Ok(text(&piece.bytes)?.replace(' ', SPACE)),
            (Kind::Text, Start::Bytes) => Ok(piece.bytes.iter().map(|&byte| character_of_byte(byte)).collect()),
        });
        names.collect()
    }

    /// Every pair that joins, the most urgent first.
    fn pairs(&self) -> Vec<(TokenId, TokenId)> {
        let mut pairs: Vec<(f32, TokenId, (TokenId, TokenId))> = match &self.joins {
            Joins::Pairs(pairs) => pairs.iter().map(|(&pair, joined)| (joined.score, joined.token, pair)).collect(),
            Joins::Scores(scores) => {
                let made = self.ids.iter().flat_map(|(piece, &token)| halves(&self.ids, piece, token));
                made.map(|(token, pair)| (scores[token as usize], token, pair)).collect()
            }
        };
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        pairs.into_iter().map(|(.., pair)| pair).collect()
    }

    /// What is done to a text before it is encoded, and undone after decoding.
    fn layout(&self) -> (Value, Value, Value) {
        let rules = &self.rules;
        if rules.start == Start::Bytes {
            let level = json!({
                "type": "ByteLevel",
                "add_prefix_space": rules.leading_space != LeadingSpace::Never,
                "trim_offsets": true,
                "use_regex": rules.words == Words::Gpt2,
            });
            return (Value::Null, level.clone(), level);
        }
        let always = rules.leading_space == LeadingSpace::Always;
        let replace = |from: &str, to: &str| json!({ "type": "Replace", "pattern": { "String": from }, "content": to });
        let prepend = json!({ "type": "Prepend", "prepend": SPACE });
        let normalizer = match always {
            true => json!({ "type": "Sequence", "normalizers": [prepend, replace(" ", SPACE)] }),
            false => Value::Null,
        };
        let pre_tokenizer = match always && rules.words == Words::None {
            true => Value::Null,
            false => json!({
                "type": "Metaspace",
                "replacement": SPACE,
                "prepend_scheme": if rules.leading_space == LeadingSpace::UnlessThereIsOne { "first" } else { "never" },
                "split": rules.words == Words::Spaces,
            }),
        };
        let mut decoders = vec![replace(SPACE, " "), json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" })];
        if rules.leading_space != LeadingSpace::Never {
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        }
        (normalizer, pre_tokenizer, json!({ "type": "Sequence", "decoders": decoders }))
    }
}

/// Every pair of known pieces that together make a piece.
fn halves(ids: &HashMap<Vec<u8>, TokenId>, piece: &[u8], token: TokenId) -> Vec<(TokenId, (TokenId, TokenId))> {
    let splits = (1..piece.len()).map(|at| piece.split_at(at));
    let known = splits.filter_map(|(left, right)| ids.get(left).copied().zip(ids.get(right).copied()));
    known.map(|pair| (token, pair)).collect()
}
