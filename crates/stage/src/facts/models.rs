//! A *published model* is a real model's shape, as its makers give it. What its cache and its weights need is counted from
//! that shape.

use inferscope_trace::ModelInfo;

/// Which positions a layer keeps keys and values for, and what it keeps of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Every layer keeps every position.
    Full,
    /// Of each `local + 1` layers the last keeps every position, and the others the newest `window` positions.
    Windowed { window: u64, local: u64 },
    /// Every layer keeps one latent vector and one rotary key for all heads together (multi-head latent attention).
    Latent { latent: u64, rope: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    pub id: &'static str,
    pub title: &'static str,
    pub n_layers: u64,
    pub n_heads: u64,
    pub n_kv_heads: u64,
    /// A number of its own: it is not always `dim / n_heads`.
    pub head_dim: u64,
    pub dim: u64,
    /// Of one expert, where there are experts.
    pub hidden_dim: u64,
    pub vocab_size: u64,
    pub attention: Attention,
    /// In 10⁹, as published.
    pub parameters: f64,
    /// Of them used for one token, in 10⁹, where only some experts are.
    pub active: Option<f64>,
    pub source: Source,
}

/// Where numbers are published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    pub title: &'static str,
    pub address: &'static str,
}

const fn source(title: &'static str, address: &'static str) -> Source {
    Source { title, address }
}

impl Published {
    /// The model on the page, in the same terms.
    pub fn of_page(model: &ModelInfo) -> Self {
        let count = |number: usize| number as u64;
        Self {
            id: "page",
            title: "The model on this page",
            n_layers: count(model.n_layers),
            n_heads: count(model.n_heads),
            n_kv_heads: count(model.n_kv_heads),
            head_dim: count(model.head_dim),
            dim: count(model.dim),
            hidden_dim: count(model.hidden_dim),
            vocab_size: count(model.vocab_size),
            attention: Attention::Full,
            parameters: model.n_parameters() as f64 / 1e9,
            active: None,
            source: source("its own file", ""),
        }
    }

    /// Layers that keep every position, and those that keep only a window.
    pub fn layers(&self) -> (u64, u64) {
        match self.attention {
            Attention::Windowed { local, .. } => {
                let full = self.n_layers / (local + 1);
                (full, self.n_layers - full)
            }
            _ => (self.n_layers, 0),
        }
    }

    /// Numbers that one layer keeps of one position: a key and a value for each KV head, or a latent and a rotary key.
    pub fn numbers_per_position(&self) -> u64 {
        match self.attention {
            Attention::Latent { latent, rope } => latent + rope,
            _ => 2 * self.n_kv_heads * self.head_dim,
        }
    }

    /// Numbers that the cache of one sequence of `context` positions holds.
    pub fn cache_numbers(&self, context: u64) -> u64 {
        let (full, local) = self.layers();
        let kept = match self.attention {
            Attention::Windowed { window, .. } => full * context + local * context.min(window),
            _ => full * context,
        };
        kept * self.numbers_per_position()
    }

    /// Every weight is used for every token.
    pub fn is_dense(&self) -> bool {
        self.active.is_none()
    }

    /// Elements of the matrices that every position goes through in all layers: query and output (dim × n_heads · head_dim),
    /// key and value (dim × n_kv_heads · head_dim), and the feed-forward matrices (three of dim × hidden_dim; GPT-2 has two).
    /// None for models with experts or latent attention, whose layers look different.
    pub fn matrix_elements(&self) -> Option<u64> {
        if !self.is_dense() || matches!(self.attention, Attention::Latent { .. }) {
            return None;
        }
        let feed_forward = if self.id == "gpt2" { 2 } else { 3 };
        let heads = 2 * self.n_heads * self.head_dim + 2 * self.n_kv_heads * self.head_dim;
        Some(self.n_layers * self.dim * (heads + feed_forward * self.hidden_dim))
    }

    /// Elements of the matrix that turns a position into logits.
    pub fn output_elements(&self) -> u64 {
        self.dim * self.vocab_size
    }
}

const VIDUR: Source =
    source("microsoft/vidur", "https://github.com/microsoft/vidur/blob/main/vidur/config/model_config.py");
// Where the file was when it was read; it has moved since.
const LLAMA: Source = source(
    "meta-llama/llama-models",
    "https://github.com/meta-llama/llama-models/blob/d13eea5ec039baa48b5f0fa3641692a45b639da7/models/llama3_1/api/sku_list.py",
);
const GEMMA: Source =
    source("google/gemma_pytorch", "https://github.com/google/gemma_pytorch/blob/main/gemma/config.py");
const GPT_OSS: Source = source("openai/gpt-oss", "https://github.com/openai/gpt-oss/blob/main/gpt_oss/torch/model.py");
const GPT2: Source = source("openai/gpt-2", "https://github.com/openai/gpt-2/blob/master/src/model.py");
const DEEPSEEK_V2: Source = source("arXiv 2405.04434", "https://arxiv.org/abs/2405.04434");
const DEEPSEEK_V3: Source = source(
    "deepseek-ai/DeepSeek-V3",
    "https://github.com/deepseek-ai/DeepSeek-V3/blob/main/inference/configs/config_671B.json",
);

const TINY: Source = source("karpathy/tinyllamas", "https://huggingface.co/karpathy/tinyllamas/tree/main/stories260K");

const fn config(address: &'static str) -> Source {
    source("config.json", address)
}

/// `heads` is query heads, KV heads and head_dim; `widths` is dim, hidden_dim and vocab_size.
const fn row(
    (id, title): (&'static str, &'static str),
    n_layers: u64,
    heads: [u64; 3],
    widths: [u64; 3],
    (parameters, active): (f64, Option<f64>),
    attention: Attention,
    source: Source,
) -> Published {
    let ([n_heads, n_kv_heads, head_dim], [dim, hidden_dim, vocab_size]) = (heads, widths);
    Published {
        id,
        title,
        n_layers,
        n_heads,
        n_kv_heads,
        head_dim,
        dim,
        hidden_dim,
        vocab_size,
        attention,
        parameters,
        active,
        source,
    }
}

const FULL: Attention = Attention::Full;
const GEMMA2: Attention = Attention::Windowed { window: 4096, local: 1 };
const GEMMA3: Attention = Attention::Windowed { window: 1024, local: 5 };
const OSS: Attention = Attention::Windowed { window: 128, local: 1 };
const MLA: Attention = Attention::Latent { latent: 512, rope: 64 };

#[rustfmt::skip]
pub const MODELS: &[Published] = &[
    row(("gpt2", "GPT-2 small"), 12, [12, 12, 64], [768, 3072, 50257], (0.124, None), FULL, GPT2),
    row(("llama2-7b", "Llama-2-7B"), 32, [32, 32, 128], [4096, 11008, 32000], (6.7, None), FULL, VIDUR),
    row(("llama2-70b", "Llama-2-70B"), 80, [64, 8, 128], [8192, 28672, 32000], (69.0, None), FULL, VIDUR),
    row(("llama3-8b", "Llama-3-8B"), 32, [32, 8, 128], [4096, 14336, 128256], (8.0, None), FULL, LLAMA),
    row(("llama3-70b", "Llama-3-70B"), 80, [64, 8, 128], [8192, 28672, 128256], (70.6, None), FULL, LLAMA),
    row(("llama31-405b", "Llama-3.1-405B"), 126, [128, 8, 128], [16384, 53248, 128256], (406.0, None), FULL, LLAMA),
    row(("mistral-7b", "Mistral-7B v0.2"), 32, [32, 8, 128], [4096, 14336, 32000], (7.2, None), FULL, config("https://huggingface.co/mistralai/Mistral-7B-Instruct-v0.2/blob/main/config.json")),
    row(("mixtral-8x7b", "Mixtral-8x7B"), 32, [32, 8, 128], [4096, 14336, 32000], (46.7, Some(12.9)), FULL, config("https://huggingface.co/mistralai/Mixtral-8x7B-v0.1/blob/main/config.json")),
    row(("qwen25-7b", "Qwen2.5-7B"), 28, [28, 4, 128], [3584, 18944, 152064], (7.6, None), FULL, config("https://huggingface.co/Qwen/Qwen2.5-7B/blob/main/config.json")),
    row(("qwen25-32b", "Qwen2.5-32B"), 64, [40, 8, 128], [5120, 27648, 152064], (32.5, None), FULL, config("https://huggingface.co/Qwen/Qwen2.5-32B/blob/main/config.json")),
    row(("qwen3-4b", "Qwen3-4B"), 36, [32, 8, 128], [2560, 9728, 151936], (4.0, None), FULL, config("https://huggingface.co/Qwen/Qwen3-4B/blob/main/config.json")),
    row(("qwen3-8b", "Qwen3-8B"), 36, [32, 8, 128], [4096, 12288, 151936], (8.2, None), FULL, config("https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json")),
    row(("qwen3-32b", "Qwen3-32B"), 64, [64, 8, 128], [5120, 25600, 151936], (32.8, None), FULL, config("https://huggingface.co/Qwen/Qwen3-32B/blob/main/config.json")),
    row(("qwen3-30b-a3b", "Qwen3-30B-A3B"), 48, [32, 4, 128], [2048, 768, 151936], (30.5, Some(3.3)), FULL, config("https://huggingface.co/Qwen/Qwen3-30B-A3B/blob/main/config.json")),
    row(("gemma2-9b", "Gemma-2-9B"), 42, [16, 8, 256], [3584, 14336, 256000], (9.2, None), GEMMA2, GEMMA),
    row(("gemma2-27b", "Gemma-2-27B"), 46, [32, 16, 128], [4608, 36864, 256000], (27.0, None), GEMMA2, GEMMA),
    row(("gemma3-4b", "Gemma-3-4B"), 34, [8, 4, 256], [2560, 10240, 262144], (4.0, None), GEMMA3, GEMMA),
    row(("gemma3-27b", "Gemma-3-27B"), 62, [32, 16, 128], [5376, 21504, 262144], (27.0, None), GEMMA3, GEMMA),
    row(("phi3-mini", "Phi-3-mini"), 32, [32, 32, 96], [3072, 8192, 32064], (3.8, None), FULL, config("https://huggingface.co/microsoft/Phi-3-mini-4k-instruct/blob/main/config.json")),
    row(("phi4", "Phi-4"), 40, [40, 10, 128], [5120, 17920, 100352], (14.7, None), FULL, config("https://huggingface.co/microsoft/phi-4/blob/main/config.json")),
    row(("gpt-oss-20b", "gpt-oss-20b"), 24, [64, 8, 64], [2880, 2880, 201088], (20.9, Some(3.6)), OSS, GPT_OSS),
    row(("gpt-oss-120b", "gpt-oss-120b"), 36, [64, 8, 64], [2880, 2880, 201088], (116.8, Some(5.1)), OSS, GPT_OSS),
    row(("deepseek-v2", "DeepSeek-V2"), 60, [128, 128, 128], [5120, 0, 102400], (236.0, Some(21.0)), MLA, DEEPSEEK_V2),
    row(("deepseek-v3", "DeepSeek-V3"), 61, [128, 128, 128], [7168, 2048, 129280], (671.0, Some(37.0)), MLA, DEEPSEEK_V3),
    row(("stories260k", "stories260K (llama2.c)"), 5, [8, 4, 8], [64, 172, 512], (0.00026, None), FULL, TINY),
];

/// The model of that id.
pub fn model(id: &str) -> Option<&'static Published> {
    MODELS.iter().find(|model| model.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KiB a token in bf16, of the table of published configurations.
    const KIB: &[(&str, f64)] = &[
        ("gpt2", 36.0),
        ("llama2-7b", 512.0),
        ("llama2-70b", 320.0),
        ("llama3-8b", 128.0),
        ("llama3-70b", 320.0),
        ("llama31-405b", 504.0),
        ("mistral-7b", 128.0),
        ("mixtral-8x7b", 128.0),
        ("qwen25-7b", 56.0),
        ("qwen25-32b", 256.0),
        ("qwen3-4b", 144.0),
        ("qwen3-8b", 144.0),
        ("qwen3-32b", 256.0),
        ("qwen3-30b-a3b", 96.0),
        ("gemma2-9b", 336.0),
        ("gemma2-27b", 368.0),
        ("gemma3-4b", 136.0),
        ("gemma3-27b", 496.0),
        ("phi3-mini", 384.0),
        ("phi4", 200.0),
        ("gpt-oss-20b", 48.0),
        ("gpt-oss-120b", 72.0),
        ("deepseek-v2", 67.5),
        ("deepseek-v3", 68.625),
        ("stories260k", 0.625),
    ];

    #[test]
    fn a_token_needs_as_many_bytes_as_the_table_says() {
        for &(id, kib) in KIB {
            let model = model(id).unwrap();
            // Of a first token, which every window keeps.
            assert_eq!(model.cache_numbers(1) as f64 * 2.0 / 1024.0, kib, "{id}");
        }
        assert_eq!(KIB.len(), MODELS.len());
        assert_eq!(model("llama3-70b").unwrap().cache_numbers(1) * 2, 327_680);
    }

    #[test]
    fn every_row_leads_to_its_source() {
        assert!(MODELS.iter().all(|model| model.source.address.starts_with("https://")));
    }

    #[test]
    fn windows_stop_growing_and_latents_have_no_factor_of_two() {
        let gib = |id: &str, context| model(id).unwrap().cache_numbers(context) as f64 * 2.0 / 2f64.powi(30);
        assert!((gib("gemma3-27b", 131_072) - 10.4).abs() < 0.05);
        assert!((gib("gpt-oss-120b", 131_072) - 4.5).abs() < 0.05);
        assert!((gib("llama3-70b", 131_072) - 40.0).abs() < 0.01);
        assert_eq!(model("deepseek-v3").unwrap().cache_numbers(1), 576 * 61);
    }

    #[test]
    fn matrices_and_embeddings_add_up_to_the_published_parameters() {
        for published in MODELS {
            let Some(matrices) = published.matrix_elements() else { continue };
            let once = (matrices + published.output_elements()) as f64 / 1e9;
            let twice = once + published.output_elements() as f64 / 1e9;
            // With the embedding tied to the output matrix, or beside it; norms and biases are a few in a thousand.
            let near = |count: f64| (count / published.parameters - 1.0).abs() < 0.035;
            assert!(near(once) || near(twice), "{}: {once:.2} or {twice:.2} G", published.id);
        }
    }
}
