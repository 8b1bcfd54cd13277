use super::*;
use crate::fixture::trace;

fn frame(trace: &Trace, moment: Moment) -> CacheFrame {
    CacheFrame::new(
        Some(trace),
        moment,
        Plan::of(trace),
        trace.model.n_layers,
        &Selection::default(),
        &Metrics::for_width(800.0),
    )
}

fn count(frame: &CacheFrame, state: ColumnState) -> usize {
    frame.columns.iter().filter(|column| column.state == state).count()
}

#[test]
fn prefill_fills_every_prompt_column_in_one_beat() {
    let trace = trace(4, 3, true);
    assert_eq!(frame(&trace, Moment::START).filled, 0);
    let half_way = frame(&trace, Moment { step: 0, progress: 0.2 });
    assert_eq!(count(&half_way, ColumnState::Writing), 4);
    let presences: Vec<f32> = half_way.columns[..4].iter().map(|column| column.presence).collect();
    // One movement from left to right over all of them.
    assert!(presences.windows(2).all(|pair| pair[0] >= pair[1]) && presences[3] > 0.0, "{presences:?}");
    assert!(half_way.columns[..4].iter().all(|column| column.state == ColumnState::Writing));
    assert_eq!(frame(&trace, Moment { step: 0, progress: 0.41 }).filled, 4);
}

#[test]
fn each_decode_step_appends_exactly_one_column() {
    let trace = trace(4, 5, true);
    for step in 1..5 {
        assert_eq!(frame(&trace, Moment { step, progress: 0.0 }).filled, 4 + step - 1);
        // While the newest position attends and predicts, its column is still being written.
        let in_the_middle = frame(&trace, Moment { step, progress: 0.6 });
        assert_eq!((in_the_middle.filled, count(&in_the_middle, ColumnState::Writing)), (4 + step - 1, 1));
        assert_eq!(frame(&trace, Moment::end_of(step)).filled, 4 + step);
    }
}

#[test]
fn arrows_reach_every_column_that_the_newest_position_may_see() {
    for cache in [true, false] {
        let trace = trace(4, 5, cache);
        for step in 0..5 {
            let frame = frame(&trace, Moment::end_of(step));
            let targets: Vec<usize> = frame.arrows.iter().map(|arrow| arrow.to).collect();
            assert_eq!(targets, (0..4 + step).collect::<Vec<_>>());
            let queries = frame.columns.iter().filter(|column| column.query).map(|column| column.position);
            assert_eq!(queries.collect::<Vec<_>>(), [3 + step]);
            let total: f32 = frame.arrows.iter().map(|arrow| arrow.weight).sum();
            assert!((total - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn without_the_cache_every_column_is_computed_again_and_none_is_kept() {
    let trace = trace(4, 5, false);
    for step in 0..5 {
        let frame = frame(&trace, Moment::end_of(step));
        assert_eq!((count(&frame, ColumnState::Recomputed), frame.filled), (4 + step, 0));
    }
}

#[test]
fn all_slots_of_the_context_are_visible_and_in_order() {
    let trace = trace(4, 1, true);
    for width in [200.0, 320.0, 1100.0] {
        let plan = Plan { context: 256, max_new_tokens: 48, prompt: 17 };
        let frame = CacheFrame::new(None, Moment::START, plan, 5, &Selection::default(), &Metrics::for_width(width));
        assert_eq!(count(&frame, ColumnState::Free), 256);
        assert!(frame.columns.windows(2).all(|pair| pair[0].x + pair[0].width <= pair[1].x + 0.01));
        assert!(frame.columns.iter().all(|column| column.width >= 1.0));
    }
    assert_eq!(frame(&trace, Moment::START).columns.len(), 12);
}

#[test]
fn a_token_is_named_only_once_it_is_drawn() {
    let trace = trace(4, 3, true);
    assert_eq!(frame(&trace, Moment { step: 1, progress: 0.5 }).columns[5].label, "");
    assert_eq!(frame(&trace, Moment::end_of(1)).columns[5].label, " b");
    // Not even when the record knows more than the moment shows.
    assert_eq!(frame(&trace, Moment::end_of(0)).columns[5].label, "");
}

#[test]
fn a_cell_tells_the_numbers_of_its_layer_and_position() {
    let trace = trace(4, 3, true);
    let details = cell_details(&trace, Moment::end_of(0), 1, 2).unwrap();
    // [layer, position, head_dim]: layer 1, position 2 begins at (1 · 4 + 2) · 2 = 12.
    assert_eq!(details.heads[0].key, vec![9.0, 10.0]);
    assert_eq!(details.bytes, 2 * 2 * 4);
    assert!(cell_details(&trace, Moment::end_of(0), 1, 5).is_none(), "not computed yet");
    assert!(cell_details(&trace, Moment::end_of(0), 7, 2).is_none(), "no such layer");
    let (key, _) = cell_pixels(&trace, Moment::end_of(0), 1, 3).unwrap();
    assert_eq!(key, vec![11.0 / 12.0, 1.0]);
}

#[test]
fn the_arrows_of_a_token_in_focus_lead_back_from_it_and_to_it_from_what_came_later() {
    let run = trace(3, 4, true);
    let selection = Selection { focus: Some(3), ..Selection::default() };
    let frame = |moment| CacheFrame::new(Some(&run), moment, Plan::of(&run), 2, &selection, &Metrics::for_width(900.0));
    let arrows = |moment| frame(moment).arrows.iter().map(|arrow| (arrow.from, arrow.to)).collect::<Vec<_>>();
    assert_eq!(arrows(Moment::end_of(3)), [(3, 0), (3, 1), (3, 2), (3, 3), (4, 3), (5, 3)]);
    assert_eq!(arrows(Moment::end_of(1)), [(3, 0), (3, 1), (3, 2), (3, 3)]);
    let query = |moment| frame(moment).columns.iter().position(|column| column.query);
    assert_eq!((query(Moment::end_of(3)), frame(Moment::end_of(3)).arrows_presence), (Some(3), 1.0));
    // Before its token is there, the newest position's arrows stand as without a focus.
    assert!(frame(Moment { step: 0, progress: 0.7 }).arrows.iter().all(|arrow| arrow.from == 2));
}

#[test]
fn a_windowed_cache_drops_what_is_neither_a_sink_nor_near() {
    let mut run = trace(3, 6, true);
    run.settings.layout = CacheLayout::Window { sinks: 1, window: 3 };
    let states = |step| {
        let frame = frame(&run, Moment::end_of(step));
        let busy = frame.columns.iter().take(8).map(|column| column.state);
        let letter = |state| match state {
            ColumnState::Filled => '#',
            ColumnState::Evicted => 'x',
            _ => '.',
        };
        (busy.map(letter).collect::<String>(), frame.filled)
    };
    // The next position sees the first, the two before it and itself.
    assert_eq!([states(0), states(1), states(2)].map(|it| it.0), ["###.....", "#x##....", "#xx##..."]);
    assert_eq!((states(5).0.as_str(), states(5).1), ("#xxxxx##", 3));
}
