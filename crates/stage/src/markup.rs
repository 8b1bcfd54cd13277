//! *Markup* is a column of the cache grid as SVG in words. A grid has hundreds of columns of which a step changes a few, so they
//! are written as text, which a browser reads faster than elements are made one by one. It knows no DOM.

use std::fmt::Write;

use crate::{
    Column, ColumnState, Metrics,
    format::{self, tenths},
};

/// A group with the column's slots or cells, the label over them, and the number under every eighth.
pub fn column(column: &Column, n_layers: usize, metrics: &Metrics) -> String {
    let position = column.position;
    let spare = if column.spare { " spare" } else { "" };
    let query = if column.query { " query" } else { "" };
    let state = column.state.as_str();
    let mut out = format!(
        r#"<g class="column{spare}{query}" data-part="column" data-position="{position}" data-state="{state}">"#
    );
    match column.state {
        ColumnState::Free => slots(&mut out, column, n_layers, metrics, false),
        ColumnState::Evicted => slots(&mut out, column, n_layers, metrics, true),
        _ => cells(&mut out, column, n_layers, metrics),
    }
    if !column.label.is_empty() && !column.spare {
        label(&mut out, column, metrics);
    }
    if !column.spare && position.is_multiple_of(8) {
        let (x, y) = (tenths(column.middle()), tenths(metrics.row_top(n_layers) - metrics.row_gap + 12.0));
        put(&mut out, format_args!(r#"<text class="tick" x="{x}" y="{y}" text-anchor="middle">{position}</text>"#));
    }
    out.push_str("</g>");
    out
}

/// Left edge and width of what is drawn of a column.
fn extent(column: &Column) -> (f32, f32) {
    let gap = if column.spare { 0.3 } else { 1.0 };
    (column.x + gap, (column.width - 2.0 * gap).max(0.6))
}

/// Outlines of empty cells; a stroke through each where something was dropped.
fn slots(out: &mut String, column: &Column, n_layers: usize, metrics: &Metrics, crossed: bool) {
    let (x, width) = extent(column);
    let [left, right] = [x, x + width].map(tenths);
    let mut path = |class: &str, row: &dyn Fn(&str, &str) -> String| {
        let rows = (0..n_layers).map(|layer| {
            let top = metrics.row_top(layer);
            row(&tenths(top), &tenths(top + metrics.row_height))
        });
        put(out, format_args!(r#"<path class="{class}" d="{}"/>"#, rows.collect::<String>()));
    };
    path("slot", &|top, bottom| format!("M{left} {top}H{right}V{bottom}H{left}z"));
    if crossed {
        path("crossed", &|top, bottom| format!("M{left} {bottom}L{right} {top}"));
    }
}

/// The first cell of all is the one that Tab reaches; arrow keys go on from there.
fn cells(out: &mut String, column: &Column, n_layers: usize, metrics: &Metrics) {
    let position = column.position;
    let (x, width) = extent(column);
    let [x, width, height] = [x, width, metrics.row_height].map(tenths);
    for layer in 0..n_layers {
        let y = tenths(metrics.row_top(layer));
        let tab = if (layer, position) == (0, 0) { 0 } else { -1 };
        put(
            out,
            format_args!(
                r#"<rect class="cell" data-part="cell" data-layer="{layer}" data-position="{position}" tabindex="{tab}" aria-label="layer {}, position {position}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#,
                layer + 1
            ),
        );
    }
}

fn label(out: &mut String, column: &Column, metrics: &Metrics) {
    let position = column.position;
    let [x, y, width, height] = [column.x, metrics.arrows_height, column.width, metrics.labels_height].map(tenths);
    let (text_x, text_y) = (tenths(column.middle() + 3.5), tenths(metrics.grid_top() - 5.0));
    let word = column.label.strip_prefix(' ').filter(|rest| !rest.is_empty()).unwrap_or(&column.label);
    let word = escaped(&format::visible(word));
    put(
        out,
        format_args!(
            r#"<rect class="grip" data-part="grip" data-focus="{position}" x="{x}" y="{y}" width="{width}" height="{height}"/><text class="token" data-focus="{position}" transform="translate({text_x} {text_y}) rotate(-68)">{word}</text>"#
        ),
    );
}

/// A text that stays a text within markup, whoever wrote it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            other => out.push(other),
        }
    }
    out
}

fn put(out: &mut String, words: std::fmt::Arguments<'_>) {
    out.write_fmt(words).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: ColumnState, label: &str) -> String {
        let place = Column {
            position: 8,
            x: 10.0,
            width: 20.0,
            state,
            presence: 1.0,
            label: label.into(),
            spare: false,
            query: false,
        };
        column(&place, 2, &Metrics::for_width(900.0))
    }

    #[test]
    fn a_free_column_has_a_slot_a_layer_and_a_filled_one_a_cell() {
        let free = of(ColumnState::Free, "");
        assert!(
            free.starts_with(r#"<g class="column" data-part="column" data-position="8" data-state="free">"#),
            "{free}"
        );
        assert_eq!((free.matches("z").count(), free.matches("data-part=\"cell\"").count()), (2, 0));
        let filled = of(ColumnState::Filled, "cat");
        assert_eq!((filled.matches("class=\"slot\"").count(), filled.matches("data-part=\"cell\"").count()), (0, 2));
        assert!(filled.contains(">cat</text>") && filled.contains(r#"class="tick""#), "{filled}");
        let dropped = of(ColumnState::Evicted, "");
        assert!(dropped.contains(r#"class="slot""#) && dropped.contains(r#"class="crossed""#), "{dropped}");
    }

    #[test]
    fn only_presence_makes_no_difference_to_the_looks() {
        let one = Column {
            position: 8,
            x: 10.0,
            width: 20.0,
            state: ColumnState::Filled,
            presence: 1.0,
            label: "cat".into(),
            spare: false,
            query: false,
        };
        assert!(one.looks_like(&Column { presence: 0.5, ..one.clone() }));
        let others = [
            Column { position: 9, ..one.clone() },
            Column { x: 11.0, ..one.clone() },
            Column { width: 21.0, ..one.clone() },
            Column { state: ColumnState::Writing, ..one.clone() },
            Column { label: "dog".into(), ..one.clone() },
            Column { spare: true, ..one.clone() },
            Column { query: true, ..one.clone() },
        ];
        assert!(others.iter().all(|other| !one.looks_like(other)));
    }

    #[test]
    fn a_vocabulary_can_not_write_markup() {
        let named = of(ColumnState::Filled, "<img src=x onerror=\"alert(1)\">&amp;");
        assert!(named.contains("&lt;img␣src=x␣onerror=\"alert(1)\"&gt;&amp;amp;"), "{named}");
        assert!(!named.contains("<img"));
    }
}
