//! The *memory frame* answers how many requests fit: for every published model, the size of its cache at a context, a batch and
//! an element type, beside its weights and the memory of an accelerator. Everything in it is counted from published shapes.

use crate::facts::{Attention, MODELS, Part, Published};
use crate::format;

/// What a number is stored in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Element {
    pub id: &'static str,
    pub title: &'static str,
    pub bits: u64,
}

const fn element(id: &'static str, title: &'static str, bits: u64) -> Element {
    Element { id, title, bits }
}

/// The scales of quantised numbers, a few percent more, are left out.
pub const ELEMENTS: &[Element] = &[
    element("bf16", "bf16", 16),
    element("f32", "f32", 32),
    element("fp8", "fp8", 8),
    element("int8", "int8", 8),
    element("int4", "int4", 4),
];

impl Element {
    fn bytes(&self, numbers: u64) -> u64 {
        (numbers * self.bits).div_ceil(8)
    }

    /// `½`, `1`, `2`, `4`.
    fn of_one(&self) -> String {
        if self.bits < 8 { "½".into() } else { (self.bits / 8).to_string() }
    }
}

/// The element type of that id.
pub fn element_of(id: &str) -> Option<Element> {
    ELEMENTS.iter().copied().find(|element| element.id == id)
}

/// What the reader has set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Tokens of each request, prompt and answer together.
    pub context: u64,
    /// Requests.
    pub batch: u64,
    pub cache: Element,
    pub weights: Element,
    pub part: Part,
    /// How many of the part share the model.
    pub parts: u64,
}

/// The most that can be asked for; beyond, no system of today is.
pub const MOST_CONTEXT: u64 = 10_000_000;
pub const MOST_BATCH: u64 = 1_000_000;
pub const MOST_PARTS: u64 = 1024;

/// A whole number within 1 ..= `most`, or what to tell the reader.
///
/// # Errors
/// A sentence that names the field, what it takes and what was given.
pub fn whole_number(text: &str, what: &str, most: u64) -> Result<u64, String> {
    let digits: String = text.chars().filter(|char| !matches!(char, ',' | ' ' | '_')).collect();
    match digits.parse::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        Ok(0) => Err(format!("{what}: it takes at least 1.")),
        _ if text.trim().is_empty() => Err(format!("{what}: it takes a whole number.")),
        _ => Err(format!("{what}: “{}” is not a whole number from 1 to {}.", text.trim(), format::grouped(most))),
    }
}

/// What a part's memory comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The weights alone are too many.
    NoWeights,
    /// So many whole requests fit beside the weights.
    Requests(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRow {
    pub model: Published,
    /// In words, for readers.
    pub kind: String,
    /// Of one more token while every window still grows.
    pub token_bytes: u64,
    /// Of one request of the whole context.
    pub request_bytes: u64,
    /// Of all requests.
    pub cache_bytes: u64,
    pub weight_bytes: u64,
    pub fit: Fit,
    /// The asked-for batch fits.
    pub enough: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MemoryFrame {
    pub budget: Budget,
    pub rows: Vec<MemoryRow>,
    /// Of all parts together.
    pub memory_bytes: u64,
}

impl MemoryFrame {
    /// `page` is the model that the page runs, if one is loaded: it stands first.
    pub fn new(budget: &Budget, page: Option<Published>) -> Self {
        let memory_bytes = (budget.part.memory_gb * 1e9) as u64 * budget.parts;
        let rows =
            page.into_iter().chain(MODELS.iter().copied()).map(|model| row(model, budget, memory_bytes)).collect();
        Self { budget: *budget, rows, memory_bytes }
    }

    pub fn row(&self, id: &str) -> Option<&MemoryRow> {
        self.rows.iter().find(|row| row.model.id == id)
    }
}

fn row(model: Published, budget: &Budget, memory_bytes: u64) -> MemoryRow {
    let request_bytes = budget.cache.bytes(model.cache_numbers(budget.context));
    let weight_bytes = budget.weights.bytes((model.parameters * 1e9).round() as u64);
    let fit = match memory_bytes.checked_sub(weight_bytes) {
        Some(free) => Fit::Requests(free / request_bytes),
        None => Fit::NoWeights,
    };
    MemoryRow {
        kind: kind(&model),
        token_bytes: budget.cache.bytes(model.cache_numbers(1)),
        request_bytes,
        cache_bytes: request_bytes.saturating_mul(budget.batch),
        weight_bytes,
        fit,
        enough: matches!(fit, Fit::Requests(requests) if requests >= budget.batch),
        model,
    }
}

/// What a model keeps, in words.
fn kind(model: &Published) -> String {
    let heads = match (model.n_heads / model.n_kv_heads.max(1), model.n_kv_heads) {
        (1, _) => "multi-head".to_string(),
        (_, 1) => "multi-query".to_string(),
        (group, _) => format!("grouped, {group} to 1"),
    };
    match model.attention {
        Attention::Full => heads,
        Attention::Windowed { window, local } => {
            format!("{heads}; {local} of {} layers see {}", local + 1, format::grouped(window))
        }
        Attention::Latent { .. } => "latent".into(),
    }
}

impl MemoryRow {
    /// How its bytes are counted, with the numbers put in.
    pub fn formula(&self, budget: &Budget) -> String {
        let model = &self.model;
        let (context, batch, bytes) = (budget.context, budget.batch, budget.cache.of_one());
        let grouped = format::grouped;
        let kept = match model.attention {
            Attention::Latent { latent, rope } => format!("({latent} latent + {rope} rotary)"),
            _ => format!("2 (key and value) × {} KV heads × {} numbers", model.n_kv_heads, model.head_dim),
        };
        let places = match model.attention {
            Attention::Windowed { window, .. } => {
                let (full, local) = model.layers();
                let seen = context.min(window);
                format!("({full} layers × {} + {local} layers × {}) positions", grouped(context), grouped(seen))
            }
            _ => format!("{} layers × {} positions", model.n_layers, grouped(context)),
        };
        let requests = if batch == 1 { String::new() } else { format!(" × {} requests", grouped(batch)) };
        let plural = if bytes == "1" || bytes == "½" { "byte" } else { "bytes" };
        format!(
            "{kept} × {places} × {bytes} {plural}{requests} = {} bytes, {}",
            grouped(self.cache_bytes),
            format::bytes(self.cache_bytes)
        )
    }

    /// What the formula leaves to be explained.
    pub fn remark(&self, budget: &Budget) -> Option<String> {
        let ignoring = |numbers: u64| format::bytes(budget.cache.bytes(numbers).saturating_mul(budget.batch));
        match self.model.attention {
            Attention::Latent { .. } => Some(
                "One latent vector and one rotary key a layer stand for the keys and values of all heads, so there is no factor \
                 of 2 and no number of heads in it."
                    .into(),
            ),
            Attention::Windowed { window, .. } if budget.context > window => Some(format!(
                "Layers with a window keep its newest {} positions only; if all layers kept everything it would be {}.",
                format::grouped(window),
                ignoring(self.model.cache_numbers(1) * budget.context)
            )),
            Attention::Full if self.model.n_kv_heads < self.model.n_heads => Some(format!(
                "{} query heads share {} KV head{}: with a KV head for each it would be {}.",
                self.model.n_heads,
                self.model.n_kv_heads,
                if self.model.n_kv_heads == 1 { "" } else { "s" },
                ignoring(2 * self.model.n_layers * self.model.n_heads * self.model.head_dim * budget.context)
            )),
            _ => None,
        }
    }

    /// Whether the requests fit, in a sentence.
    pub fn verdict(&self, frame: &MemoryFrame) -> String {
        let budget = &frame.budget;
        let part = match budget.parts {
            1 => format!("one {}", budget.part.title),
            n => format!("{} × {}", format::grouped(n), budget.part.title),
        };
        let memory = format::bytes(frame.memory_bytes);
        match self.fit {
            Fit::NoWeights => format!(
                "The weights alone are {}, more than the {memory} of {part}: no request fits.",
                format::bytes(self.weight_bytes)
            ),
            Fit::Requests(0) => format!(
                "Beside the weights of {} there is no room for even one request of {} in the {memory} of {part}.",
                format::bytes(self.weight_bytes),
                format::bytes(self.request_bytes)
            ),
            Fit::Requests(requests) => format!(
                "{} of weights and {} a request: {} request{} of {} tokens fit{} into the {memory} of {part}{}.",
                format::bytes(self.weight_bytes),
                format::bytes(self.request_bytes),
                format::grouped(requests),
                if requests == 1 { "" } else { "s" },
                format::grouped(budget.context),
                if requests == 1 { "s" } else { "" },
                if self.enough {
                    String::new()
                } else {
                    format!(", not the {} asked for", format::grouped(budget.batch))
                }
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::part;

    fn budget(context: u64, batch: u64, cache: &str, part_id: &str) -> Budget {
        Budget {
            context,
            batch,
            cache: element_of(cache).unwrap(),
            weights: element_of("bf16").unwrap(),
            part: *part(part_id).unwrap(),
            parts: 1,
        }
    }

    #[test]
    fn bytes_are_those_that_are_published_for_every_kind_of_attention() {
        let frame = MemoryFrame::new(&budget(131_072, 1, "bf16", "h100"), None);
        let gib = |id: &str| frame.row(id).unwrap().request_bytes as f64 / 2f64.powi(30);
        assert_eq!(frame.row("llama3-70b").unwrap().token_bytes, 327_680);
        assert_eq!(gib("llama3-70b"), 40.0);
        assert!((gib("gemma3-27b") - 10.4).abs() < 0.05 && (gib("gpt-oss-120b") - 4.5).abs() < 0.05);
        assert_eq!(frame.row("deepseek-v3").unwrap().token_bytes, 576 * 61 * 2);
        for (id, factor) in [("f32", 2.0), ("fp8", 0.5), ("int8", 0.5), ("int4", 0.25)] {
            let other = MemoryFrame::new(&budget(131_072, 3, id, "h100"), None);
            for (row, bf16) in other.rows.iter().zip(&frame.rows) {
                assert_eq!(row.request_bytes as f64, bf16.request_bytes as f64 * factor, "{} {id}", row.model.id);
                assert_eq!(row.cache_bytes, 3 * row.request_bytes);
            }
        }
    }

    #[test]
    fn the_formula_comes_to_what_it_says() {
        // Every number of the formula, multiplied and added as it is written, is the result that stands behind the “=”.
        for (context, batch) in [(1, 1), (4096, 1), (100_000, 7)] {
            let budget = budget(context, batch, "bf16", "h100");
            for row in &MemoryFrame::new(&budget, None).rows {
                let formula = row.formula(&budget).replace(',', "");
                let (left, right) = formula.split_once(" = ").unwrap();
                let number = |text: &str| -> u64 {
                    let digits: String = text.chars().skip_while(|char| !char.is_ascii_digit()).collect();
                    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
                };
                let sum = |text: &str| -> u64 {
                    text.split(" + ").map(|term| term.split(" × ").map(number).product::<u64>()).sum()
                };
                let mut rest = left.to_string();
                let mut product = 1;
                while let Some((before, after)) = rest.split_once('(').filter(|(_, after)| !after.starts_with("key")) {
                    let (inner, behind) = after.split_once(')').unwrap();
                    product *= sum(inner);
                    rest = format!("{before}1{behind}");
                }
                let rest = rest.replace("(key and value)", "");
                if let Some((before, after)) = rest.split_once('(') {
                    let (inner, behind) = after.split_once(')').unwrap();
                    product *= sum(inner) * sum(&format!("{before}1{behind}"));
                } else {
                    product *= sum(&rest);
                }
                assert_eq!(product, number(right), "{}: {formula}", row.model.id);
                assert_eq!(number(right), row.cache_bytes);
            }
        }
    }

    #[test]
    fn what_fits_is_what_is_left_beside_the_weights() {
        let frame = MemoryFrame::new(&budget(8192, 40, "bf16", "h100"), None);
        let row = |id: &str| frame.row(id).unwrap();
        // 80 GB less 16.0 GB of weights, in requests of 1 GiB.
        assert_eq!((row("llama3-8b").fit, row("llama3-8b").enough), (Fit::Requests(59), true));
        assert_eq!((row("llama3-70b").fit, row("llama3-70b").enough), (Fit::NoWeights, false));
        assert!(row("llama3-70b").verdict(&frame).contains("no request fits"));
        let two = MemoryFrame::new(&Budget { parts: 2, ..budget(131_072, 1, "bf16", "h100") }, None);
        assert_eq!(two.row("llama3-70b").unwrap().fit, Fit::Requests(0));
        assert!(two.row("llama3-70b").unwrap().verdict(&two).contains("even one request"));
        let many = MemoryFrame::new(&budget(8192, 100, "bf16", "h100"), None);
        assert!(many.row("llama3-8b").unwrap().verdict(&many).ends_with("not the 100 asked for."));
    }

    #[test]
    fn the_largest_that_can_be_asked_for_is_counted_and_the_rest_is_refused_with_a_sentence() {
        let frame = MemoryFrame::new(&budget(MOST_CONTEXT, MOST_BATCH, "f32", "b200"), None);
        assert!(frame.rows.iter().all(|row| row.cache_bytes < u64::MAX && !row.verdict(&frame).contains("NaN")));
        assert_eq!(whole_number("131,072", "The context", MOST_CONTEXT), Ok(131_072));
        assert_eq!(whole_number("0", "The context", MOST_CONTEXT), Err("The context: it takes at least 1.".into()));
        for wrong in ["-3", "1.5", "many", "10000001", "99999999999999999999999"] {
            assert!(whole_number(wrong, "The context", MOST_CONTEXT).unwrap_err().contains("from 1 to 10,000,000"));
        }
    }

    #[test]
    fn the_model_of_the_page_stands_first_and_is_counted_alike() {
        let info = crate::fixture::model();
        let frame = MemoryFrame::new(&budget(10, 1, "f32", "l4"), Some(Published::of_page(&info)));
        assert_eq!(frame.rows[0].request_bytes, inferscope_trace::cache_bytes(&info, 10));
        assert_eq!(frame.rows[0].weight_bytes, info.n_parameters() * 2);
        assert_eq!(frame.rows.len(), MODELS.len() + 1);
    }

    #[test]
    fn remarks_say_what_public_calculators_get_wrong() {
        let budget = budget(131_072, 1, "bf16", "h100");
        let frame = MemoryFrame::new(&budget, None);
        let remark = |id: &str| frame.row(id).unwrap().remark(&budget).unwrap();
        assert!(remark("gemma3-27b").ends_with("it would be 62.0 GiB."));
        assert!(remark("gpt-oss-120b").ends_with("it would be 9.00 GiB."));
        assert!(remark("llama3-70b").contains("it would be 320 GiB"));
        assert!(remark("deepseek-v3").contains("no factor of 2"));
        assert_eq!(frame.row("llama2-7b").unwrap().remark(&budget), None);
    }
}
