//! `config.json`: a model's shape, and what else its arithmetic depends on, which must be what this crate computes.

use inferscope_trace::{ModelInfo, TokenId};
use serde_json::{Value, json};

use super::HuggingFaceError;
use crate::config::DeclaredShape;
use crate::format::shown::Shown;
use crate::tokenizer::{SpecialTokens, Tokenizer};
use crate::{Checkpoint, model};

/// What a `config.json` says.
#[derive(Debug)]
pub(crate) struct Config {
    pub shape: ModelInfo,
    pub special: SpecialTokens,
    /// What keeps the norms' divisions defined.
    pub norm_epsilon: f64,
}

impl Config {
    /// Reads and checks a configuration. Fields that it leaves out have the values that transformers gives a Llama.
    pub fn parse(file: &[u8]) -> Result<Self, HuggingFaceError> {
        let config: Value =
            serde_json::from_slice(file).map_err(|error| HuggingFaceError::Json { cause: error.to_string() })?;
        let number = |field: &'static str| config[field].as_i64().ok_or(HuggingFaceError::Field { field });
        let number_or = |field: &'static str, default| match &config[field] {
            Value::Null => Ok(default),
            _ => number(field),
        };
        check_arithmetic(&config)?;
        let n_heads = number("num_attention_heads")?;
        let shape = DeclaredShape {
            dim: number("hidden_size")?,
            hidden_dim: number("intermediate_size")?,
            n_layers: number("num_hidden_layers")?,
            n_heads,
            n_kv_heads: number_or("num_key_value_heads", n_heads)?,
            vocab_size: number("vocab_size")?,
            context: number_or("max_position_embeddings", 2048)?,
            tied_embedding: config["tie_word_embeddings"] == true,
        };
        let shape = shape.check()?;
        let head_dim = number_or("head_dim", shape.head_dim as i64)?;
        if head_dim != shape.head_dim as i64 {
            let supported = format!("hidden_size / num_attention_heads ({})", shape.head_dim);
            return Err(HuggingFaceError::Unsupported { field: "head_dim", found: head_dim.to_string(), supported });
        }
        let ids = |field: &str| -> Vec<TokenId> {
            let one_or_many = match &config[field] {
                Value::Array(ids) => ids.as_slice(),
                id => std::slice::from_ref(id),
            };
            one_or_many.iter().filter_map(|id| TokenId::try_from(id.as_u64()?).ok()).collect()
        };
        let special = SpecialTokens { bos: ids("bos_token_id").first().copied(), eos: ids("eos_token_id") };
        let norm_epsilon = match &config["rms_norm_eps"] {
            Value::Null => 1e-6,
            value => value.as_f64().ok_or(HuggingFaceError::Field { field: "rms_norm_eps" })?,
        };
        if !(1e-12..=1.0).contains(&norm_epsilon) {
            let (found, supported) = (norm_epsilon.to_string(), "1e-12 to 1".into());
            return Err(HuggingFaceError::Unsupported { field: "rms_norm_eps", found, supported });
        }
        Ok(Self { shape, special, norm_epsilon })
    }
}

/// Whether a model of this configuration computes what [`Model`](crate::Model) does.
fn check_arithmetic(config: &Value) -> Result<(), HuggingFaceError> {
    let unsupported = |field, found: &Value, supported: String| {
        Err(HuggingFaceError::Unsupported { field, found: Shown(found).to_string(), supported })
    };
    // A null stands for transformers' own value.
    let texts = [("model_type", "llama", None), ("hidden_act", "silu", Some("silu"))];
    for (field, supported, default) in texts {
        let value = &config[field];
        if value.as_str().or(default.filter(|_| value.is_null())) != Some(supported) {
            return unsupported(field, value, format!("\"{supported}\""));
        }
    }
    // Since version 5 of transformers, what concerns the rotation stands together.
    let rotation = match &config["rope_parameters"] {
        Value::Null => config,
        parameters => parameters,
    };
    let theta = &rotation["rope_theta"];
    if !theta.is_null() && theta.as_f64() != Some(f64::from(model::ROTARY_BASE)) {
        return unsupported("rope_theta", theta, model::ROTARY_BASE.to_string());
    }
    let kind = &rotation["rope_type"];
    if !kind.is_null() && kind != "default" {
        return unsupported("rope_type", kind, "\"default\"".into());
    }
    let absent = ["rope_scaling", "quantization_config", "attention_bias", "mlp_bias"];
    for field in absent {
        let value = &config[field];
        if !(value.is_null() || *value == false) {
            return unsupported(field, value, "none".into());
        }
    }
    Ok(())
}

impl Checkpoint {
    /// A `config.json` for the weights that [`to_safetensors`](Self::to_safetensors) writes, with which transformers'
    /// `LlamaForCausalLM` reads them. The special tokens are those of `tokenizer`.
    pub fn config_json(&self, tokenizer: &Tokenizer) -> String {
        let shape = &self.shape;
        let bos = tokenizer.vocabulary().bos;
        let ends: Vec<TokenId> = (0..shape.vocab_size as TokenId).filter(|&token| tokenizer.is_end(token)).collect();
        let config = json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": shape.dim,
            "intermediate_size": shape.hidden_dim,
            "num_hidden_layers": shape.n_layers,
            "num_attention_heads": shape.n_heads,
            "num_key_value_heads": shape.n_kv_heads,
            "head_dim": shape.head_dim,
            "vocab_size": shape.vocab_size,
            "max_position_embeddings": shape.context,
            "tie_word_embeddings": shape.tied_embedding,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "attention_bias": false,
            "mlp_bias": false,
            "bos_token_id": bos,
            "eos_token_id": ends,
            "torch_dtype": "float32",
        });
        format!("{config:#}\n")
    }
}
