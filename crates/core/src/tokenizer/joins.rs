//! A *join* puts one token in the place of two neighbours. Joining goes by byte-pair encoding (Sennrich et al. 2016,
//! "Neural Machine Translation of Rare Words with Subword Units"): as long as any two neighbours join, those with the
//! best score do, the leftmost of equals.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use inferscope_trace::TokenId;

/// What two neighbours become, and how urgently.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    pub score: f32,
    pub token: TokenId,
}

/// Joins neighbours until none join. The possible joins wait in a queue with the best first, so that a text of n tokens
/// takes about n · log n steps instead of looking at all neighbours again after every join.
pub(super) fn join_all(
    tokens: Vec<TokenId>,
    mut joined: impl FnMut(TokenId, TokenId) -> Option<Joined>,
) -> impl Iterator<Item = TokenId> {
    let mut row = Row::new(tokens);
    let mut queue = BinaryHeap::new();
    let mut consider = |row: &Row, left: usize, queue: &mut BinaryHeap<Join>| {
        let Some(pair) = row.pair(left) else { return };
        if let Some(Joined { score, token }) = joined(pair.0, pair.1) {
            queue.push(Join { score, left, pair, token });
        }
    };
    (0..row.tokens.len()).for_each(|left| consider(&row, left, &mut queue));
    while let Some(join) = queue.pop() {
        // Either neighbour may have joined another since.
        if row.pair(join.left) == Some(join.pair) {
            row.join(join.left, join.token);
            if let Some(before) = row.before(join.left) {
                consider(&row, before, &mut queue);
            }
            consider(&row, join.left, &mut queue);
        }
    }
    row.into_tokens()
}

/// A join that was possible when it was found.
struct Join {
    score: f32,
    left: usize,
    pair: (TokenId, TokenId),
    token: TokenId,
}

impl Ord for Join {
    /// The greatest is the next to do: the best score, then the leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Join {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Join {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Join {}

/// Tokens in a row from which some have been joined away. Places keep their order, so the leftmost is the lowest.
struct Row {
    /// By place; `None` where a token was joined to the one before it.
    tokens: Vec<Option<TokenId>>,
    next: Vec<usize>,
    before: Vec<Option<usize>>,
}

impl Row {
    fn new(tokens: Vec<TokenId>) -> Self {
        let n = tokens.len();
        Self {
            tokens: tokens.into_iter().map(Some).collect(),
            next: (1..=n).collect(),
            before: (0..n).map(|place| place.checked_sub(1)).collect(),
        }
    }

    /// The token at a place and its neighbour to the right.
    fn pair(&self, left: usize) -> Option<(TokenId, TokenId)> {
        let right = self.tokens.get(self.next[left]).copied().flatten();
        self.tokens[left].zip(right)
    }

    fn before(&self, place: usize) -> Option<usize> {
        self.before[place]
    }

    /// Puts `token` in place of the pair that begins at `left`.
    fn join(&mut self, left: usize, token: TokenId) {
        let right = self.next[left];
        self.tokens[left] = Some(token);
        self.tokens[right] = None;
        self.next[left] = self.next[right];
        if let Some(before) = self.before.get_mut(self.next[left]) {
            *before = Some(left);
        }
    }

    fn into_tokens(self) -> impl Iterator<Item = TokenId> {
        self.tokens.into_iter().flatten()
    }
}
