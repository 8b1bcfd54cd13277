//! The *JSON form* of a trace, version 1: what the element's `trace` property gives and what other programs read.
//! Names are the field's own, in snake case.

use inferscope_sampler::Distribution;
use inferscope_trace::{
    BackendInfo, ModelInfo, Phase, Sampling, Step, TRACE_VERSION, TokenId, Trace, Vocabulary, Work,
};
use serde::Serialize;

/// How many candidates of each step to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Leading(usize),
    /// The whole vocabulary.
    All,
}

impl Default for Detail {
    fn default() -> Self {
        Self::Leading(20)
    }
}

#[derive(Serialize)]
pub struct TraceJson {
    version: u32,
    model: ModelJson,
    backend: BackendInfo,
    settings: SettingsJson,
    prompt: PromptJson,
    /// What the model wrote, without the prompt.
    text: String,
    /// `length`, `end_of_text` or `context`; null while the run goes on.
    finish: Option<inferscope_trace::Finish>,
    steps: Vec<StepJson>,
}

/// A model by its name and shape.
#[derive(Serialize)]
pub struct ModelJson {
    id: String,
    dim: usize,
    hidden_dim: usize,
    n_layers: usize,
    n_heads: usize,
    n_kv_heads: usize,
    head_dim: usize,
    vocab_size: usize,
    context: usize,
}

#[derive(Serialize)]
struct SettingsJson {
    max_new_tokens: usize,
    #[serde(flatten)]
    sampling: Sampling,
    seed: u32,
    cache: &'static str,
}

#[derive(Serialize)]
struct PromptJson {
    text: String,
    tokens: Vec<TokenJson>,
}

#[derive(Serialize)]
struct TokenJson {
    id: TokenId,
    text: String,
}

#[derive(Serialize)]
struct CandidateJson {
    id: TokenId,
    text: String,
    logit: f32,
    /// After temperature and cuts.
    probability: f32,
    kept: bool,
    cut_by: Option<String>,
}

/// One step of the JSON form.
#[derive(Serialize)]
pub struct StepJson {
    index: usize,
    phase: Phase,
    first_position: usize,
    positions: usize,
    token: TokenJson,
    candidates: Vec<CandidateJson>,
    work: Work,
    milliseconds: f64,
    /// The reader put the token here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    chosen: bool,
}

impl TraceJson {
    pub fn new(trace: &Trace, detail: Detail) -> Self {
        let steps = trace.steps.iter().map(|step| StepJson::new(&trace.vocabulary, step, detail)).collect();
        Self { steps, ..Self::without_steps(trace) }
    }

    /// The same with an empty list of steps, for a caller that has them already.
    pub fn without_steps(trace: &Trace) -> Self {
        Self {
            version: TRACE_VERSION,
            model: ModelJson::new(&trace.model),
            backend: trace.backend.clone(),
            settings: SettingsJson {
                max_new_tokens: trace.settings.max_new_tokens,
                sampling: trace.settings.sampling.clone(),
                seed: trace.settings.seed,
                cache: if trace.settings.cache { "on" } else { "off" },
            },
            prompt: PromptJson {
                text: trace.prompt.text.clone(),
                tokens: trace.prompt.tokens.iter().map(|&id| token(&trace.vocabulary, id)).collect(),
            },
            text: trace.text(),
            finish: trace.finish,
            steps: Vec::new(),
        }
    }
}

impl ModelJson {
    pub fn new(info: &ModelInfo) -> Self {
        Self {
            id: info.id.clone(),
            dim: info.dim,
            hidden_dim: info.hidden_dim,
            n_layers: info.n_layers,
            n_heads: info.n_heads,
            n_kv_heads: info.n_kv_heads,
            head_dim: info.head_dim,
            vocab_size: info.vocab_size,
            context: info.context,
        }
    }
}

fn token(vocabulary: &Vocabulary, id: TokenId) -> TokenJson {
    TokenJson { id, text: vocabulary.label(id) }
}

impl StepJson {
    pub fn new(vocabulary: &Vocabulary, step: &Step, detail: Detail) -> Self {
        let limit = match detail {
            Detail::Leading(limit) => limit,
            Detail::All => usize::MAX,
        };
        let candidates = Distribution::new(&step.logits, &step.sampling).candidates.into_iter().take(limit);
        Self {
            index: step.index,
            phase: step.phase,
            first_position: step.first_position,
            positions: step.positions,
            token: token(vocabulary, step.token),
            candidates: candidates
                .map(|candidate| CandidateJson {
                    text: vocabulary.label(candidate.id),
                    kept: candidate.kept(),
                    id: candidate.id,
                    logit: candidate.logit,
                    probability: candidate.probability,
                    cut_by: candidate.cut_by,
                })
                .collect(),
            work: step.work,
            milliseconds: step.milliseconds,
            chosen: step.chosen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn version_1_has_the_promised_fields() {
        let json = serde_json::to_value(TraceJson::new(&trace(3, 2, true), Detail::Leading(4))).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["model"]["n_kv_heads"], 1);
        assert_eq!(json["backend"]["kind"], "cpu");
        assert_eq!(json["settings"]["cache"], "on");
        assert_eq!(json["prompt"]["tokens"][0]["text"], "<s>");
        let step = &json["steps"][1];
        assert_eq!((&step["phase"], &step["positions"]), (&"decode".into(), &1.into()));
        assert_eq!(step["candidates"].as_array().unwrap().len(), 4);
        assert_eq!(step["candidates"][3]["cut_by"], "top_k");
        assert_eq!(step["candidates"][0]["kept"], true);
        assert!(step["work"]["flops"].as_u64().unwrap() > 0);
        let all = serde_json::to_value(TraceJson::new(&trace(3, 2, true), Detail::All)).unwrap();
        assert_eq!(all["steps"][0]["candidates"].as_array().unwrap().len(), 6);
    }
}
