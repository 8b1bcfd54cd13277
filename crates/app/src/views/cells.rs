//! The *cell painter* draws the numbers inside the cells: every key and value of the cache is a pixel of a small
//! picture, and the pictures are scaled up to the cells. The picture is made anew only when its numbers change.

use inferscope_stage::{CacheFrame, Metrics, Moment, cell_pixels};
use inferscope_trace::Trace;
use wasm_bindgen::{Clamped, JsCast};

use crate::dom;

type Rgb = [f32; 3];

#[derive(Default)]
pub struct CellPainter {
    picture: Option<web_sys::HtmlCanvasElement>,
    /// What the picture shows; another trace has other steps in it.
    painted: Option<Painted>,
}

#[derive(Clone, PartialEq)]
struct Painted {
    step: usize,
    columns: usize,
    known: usize,
    prompt: Vec<u32>,
    theme: u32,
}

impl CellPainter {
    /// Draws the cells of `frame` onto `canvas`. `theme` changes whenever colours do.
    pub fn paint(
        &mut self,
        canvas: &web_sys::HtmlCanvasElement,
        trace: Option<&Trace>,
        moment: Moment,
        frame: &CacheFrame,
        metrics: &Metrics,
        theme: u32,
    ) {
        let ratio = dom::window().device_pixel_ratio();
        let (width, height) = ((f64::from(frame.width) * ratio) as u32, (f64::from(frame.height) * ratio) as u32);
        if (canvas.width(), canvas.height()) != (width, height) {
            canvas.set_width(width);
            canvas.set_height(height);
        }
        let Some(context) = context_of(canvas) else { return };
        let _ = context.set_transform(ratio, 0.0, 0.0, ratio, 0.0, 0.0);
        context.clear_rect(0.0, 0.0, f64::from(frame.width), f64::from(frame.height));
        let Some(trace) = trace else { return };
        let columns = frame.columns.iter().rposition(|column| column.presence > 0.0).map_or(0, |last| last + 1);
        if columns == 0 {
            return;
        }
        self.make_picture(canvas, trace, moment, columns, theme);
        let Some(picture) = &self.picture else { return };
        let (cell_width, cell_height) = cell_size(trace);
        context.set_image_smoothing_enabled(false);
        // What was dropped lies between what is kept.
        for column in frame.columns[..columns].iter().filter(|column| column.presence > 0.0) {
            context.set_global_alpha(f64::from(column.presence));
            let (x, width) = (f64::from(column.x) + 1.0, f64::from(column.width) - 2.0);
            for layer in 0..frame.n_layers {
                let _ = context.draw_image_with_html_canvas_element_and_sw_and_sh_and_dx_and_dy_and_dw_and_dh(
                    picture,
                    (column.position * cell_width) as f64,
                    (layer * cell_height) as f64,
                    cell_width as f64,
                    cell_height as f64,
                    x,
                    f64::from(metrics.row_top(layer)),
                    width.max(1.0),
                    f64::from(metrics.row_height),
                );
            }
        }
        context.set_global_alpha(1.0);
    }

    fn make_picture(
        &mut self,
        canvas: &web_sys::HtmlCanvasElement,
        trace: &Trace,
        moment: Moment,
        columns: usize,
        theme: u32,
    ) {
        let known = trace.steps[..=moment.step].iter().filter(|step| step.kv.is_some()).count();
        let now = Painted { step: moment.step, columns, known, prompt: trace.prompt.tokens.clone(), theme };
        if self.painted.as_ref() == Some(&now) {
            return;
        }
        let (cell_width, cell_height) = cell_size(trace);
        let (width, height) = (columns * cell_width, trace.model.n_layers * cell_height);
        let colours = Colours::of(canvas);
        let mut rgba = vec![0u8; width * height * 4];
        for position in 0..columns {
            for layer in 0..trace.model.n_layers {
                let Some((key, value)) = cell_pixels(trace, moment, layer, position) else { continue };
                let below = key.len();
                for (index, number) in key.iter().chain(&value).enumerate() {
                    let pair = if index < below { colours.key } else { colours.value };
                    let (row, column) =
                        (layer * cell_height + index / cell_width, position * cell_width + index % cell_width);
                    let start = (row * width + column) * 4;
                    rgba[start..start + 4].copy_from_slice(&shade(*number, colours.zero, pair));
                }
            }
        }
        let picture = self.picture.get_or_insert_with(|| {
            let document = dom::window().document().expect("a window has a document");
            document.create_element("canvas").expect("canvas is an element").unchecked_into()
        });
        picture.set_width(width as u32);
        picture.set_height(height as u32);
        let data = web_sys::ImageData::new_with_u8_clamped_array_and_sh(Clamped(&rgba), width as u32, height as u32);
        if let (Ok(data), Some(context)) = (data, context_of(picture)) {
            let _ = context.put_image_data(&data, 0.0, 0.0);
            self.painted = Some(now);
        }
    }
}

/// Pixels of one cell: a column a KV head; the key's dimensions, then the value's, downwards.
fn cell_size(trace: &Trace) -> (usize, usize) {
    (trace.model.n_kv_heads, 2 * trace.model.head_dim)
}

fn context_of(canvas: &web_sys::HtmlCanvasElement) -> Option<web_sys::CanvasRenderingContext2d> {
    canvas.get_context("2d").ok().flatten()?.dyn_into().ok()
}

/// Colours of zero, and of the largest negative and positive key and value.
struct Colours {
    zero: Rgb,
    key: [Rgb; 2],
    value: [Rgb; 2],
}

impl Colours {
    /// From the style sheet, where each is written as `red green blue`.
    fn of(canvas: &web_sys::HtmlCanvasElement) -> Self {
        let read = |name| rgb_of(canvas, name);
        Self {
            zero: read("--cell-zero"),
            key: [read("--key-minus"), read("--key-plus")],
            value: [read("--value-minus"), read("--value-plus")],
        }
    }
}

/// A colour of the style sheet that is written as `red green blue`.
pub fn rgb_of(canvas: &web_sys::HtmlCanvasElement, name: &str) -> Rgb {
    let style = dom::window().get_computed_style(canvas).ok().flatten();
    let text = style.and_then(|style| style.get_property_value(name).ok()).unwrap_or_default();
    let mut parts = text.split_whitespace().filter_map(|part| part.parse::<u8>().ok());
    std::array::from_fn(|_| f32::from(parts.next().unwrap_or(128)))
}

/// `number` in −1 ..= 1 between the colours of its sign and of zero. The root lifts small numbers into sight.
fn shade(number: f32, zero: Rgb, [minus, plus]: [Rgb; 2]) -> [u8; 4] {
    let strength = number.abs().sqrt();
    let colour = if number < 0.0 { minus } else { plus };
    let mix = |channel: usize| (zero[channel] + (colour[channel] - zero[channel]) * strength) as u8;
    [mix(0), mix(1), mix(2), 255]
}
