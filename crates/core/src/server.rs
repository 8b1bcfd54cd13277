//! A *server* runs many requests on one model: every step it lets requests in as far as its memory goes, runs one pass over all
//! that are there, each at its own place in its own text, and draws a token for each.
//!
//! What a request writes does not depend on who else is served: its tokens are those of a session of its own. The memory is
//! real: a request's columns lie in slots that were given to it, and when no block is free somebody has to give theirs back.

use std::collections::VecDeque;
use std::rc::Rc;

use inferscope_sampler::{coin, draw};
use inferscope_trace::{
    Batching, Extent, Finish, Memory, MemoryMap, Ran, Request, RequestId, ServingSettings, ServingStep, TokenId,
    request_name,
};

use crate::session::{Opening, finish};
use crate::{BlockPool, Cache, LanguageModel, Model, ModelError, Sequence, SequenceCache, SessionError, Tokenizer};

/// Why a server can not be opened, or can not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    #[error("there is no request to serve")]
    NoRequests,
    #[error("a batch holds at least one request, and a block at least one position")]
    Nothing,
    #[error("request {}: {error}", request_name(*.request))]
    Request { request: RequestId, error: SessionError },
    #[error(
        "request {} may come to need {needed} slots, and the memory has {slots}: give it more memory or ask for fewer tokens", request_name(*.request)
    )]
    TooLarge { request: RequestId, needed: usize, slots: usize },
    #[error("all requests have ended")]
    Finished,
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// A request and how far it has come.
struct Job {
    request: Request,
    /// The prompt, then what was generated.
    tokens: Vec<TokenId>,
    prompt_len: usize,
    finish: Option<Finish>,
}

impl Job {
    /// Slots that it may come to need: the last token drawn is never run.
    fn most_slots(&self, context: usize) -> usize {
        (self.prompt_len + self.request.max_new_tokens - 1).min(context)
    }
}

/// A request that is being served.
struct Active {
    job: RequestId,
    place: usize,
    cache: Cache,
    /// Its slots, where memory is reserved: the first one and how many.
    region: Option<(usize, usize)>,
}

pub struct Server {
    model: Rc<Model>,
    ends: Vec<TokenId>,
    settings: ServingSettings,
    jobs: Vec<Job>,
    queue: VecDeque<RequestId>,
    /// In the order they were admitted.
    active: Vec<Active>,
    pool: Option<BlockPool>,
    steps: usize,
}

impl Server {
    /// # Errors
    /// When there is nothing to serve, a prompt does not fit into the context, or a request could never fit into the memory.
    pub fn open(
        model: Rc<Model>,
        tokenizer: &Tokenizer,
        requests: Vec<Request>,
        settings: ServingSettings,
    ) -> Result<Self, ServerError> {
        let block = match settings.memory {
            Memory::Paged { block, .. } => block,
            Memory::Reserved => 1,
        };
        if requests.is_empty() {
            return Err(ServerError::NoRequests);
        }
        if settings.max_batch == 0 || block == 0 {
            return Err(ServerError::Nothing);
        }
        let context = model.info().context;
        let slots = settings.slots / block * block;
        let mut ends = Vec::new();
        let mut jobs = Vec::new();
        for (id, request) in requests.into_iter().enumerate() {
            let alone = inferscope_trace::Settings { max_new_tokens: request.max_new_tokens, ..Default::default() };
            let opening = Opening::new(model.info(), tokenizer, &request.prompt, &alone)
                .map_err(|error| ServerError::Request { request: id, error })?;
            let prompt_len = opening.tokens.len();
            let job = Job { request, tokens: opening.tokens, prompt_len, finish: None };
            let needed = job.most_slots(context).next_multiple_of(block);
            if needed > slots {
                return Err(ServerError::TooLarge { request: id, needed, slots });
            }
            jobs.push(job);
            ends = opening.ends;
        }
        let pool = match settings.memory {
            Memory::Paged { block, .. } => Some(model.block_pool(slots / block, block)),
            Memory::Reserved => None,
        };
        Ok(Self { model, ends, settings, jobs, queue: VecDeque::new(), active: Vec::new(), pool, steps: 0 })
    }

    /// Each request's prompt, BOS first.
    pub fn prompts(&self) -> Vec<Vec<TokenId>> {
        self.jobs.iter().map(|job| job.tokens[..job.prompt_len].to_vec()).collect()
    }

    /// What each request has written so far.
    pub fn generated(&self) -> Vec<Vec<TokenId>> {
        self.jobs.iter().map(|job| job.tokens[job.prompt_len..].to_vec()).collect()
    }

    pub fn is_finished(&self) -> bool {
        self.jobs.iter().all(|job| job.finish.is_some())
    }

    /// One pass over every request that is served. A step in which nobody is there yet runs nothing.
    ///
    /// # Errors
    /// When all requests have ended, or the device fails.
    pub async fn step(&mut self) -> Result<ServingStep, ServerError> {
        if self.is_finished() {
            return Err(ServerError::Finished);
        }
        let index = self.steps;
        let arrived = (0..self.jobs.len()).filter(|&id| self.jobs[id].request.arrives == index);
        self.queue.extend(arrived.collect::<Vec<_>>());
        let (admitted, shared) = self.admit();
        let preempted = self.make_room()?;

        // Each one's next positions: the newest token's, or the part of its prompt that comes next.
        let parts: Vec<(usize, usize)> = self
            .active
            .iter()
            .map(|it| {
                let start = it.cache.len();
                let left = self.jobs[it.job].tokens.len() - start;
                (start, if self.settings.chunk == 0 { left } else { left.min(self.settings.chunk) })
            })
            .collect();
        let logits = if parts.is_empty() {
            Vec::new()
        } else {
            let (active, jobs) = (&mut self.active, &self.jobs);
            let sequences = active.iter_mut().zip(&parts).map(|(it, &(start, n))| Sequence {
                tokens: &jobs[it.job].tokens[start..start + n],
                cache: &mut it.cache,
                logits: 1,
            });
            self.model.forward_batch(&mut sequences.collect::<Vec<_>>()).await?
        };
        let mut ran = Vec::new();
        for ((it, &(first_position, positions)), logits) in self.active.iter().zip(&parts).zip(&logits) {
            let (context, job) = (self.model.info().context, &mut self.jobs[it.job]);
            let prefill =
                first_position + positions < job.tokens.len() || positions > 1 || first_position < job.prompt_len;
            let mut token = None;
            if first_position + positions == job.tokens.len() {
                let place = job.tokens.len() - job.prompt_len;
                let drawn = draw(&logits[0], &job.request.sampling, coin(job.request.seed, place));
                job.tokens.push(drawn);
                job.finish = finish(&job.tokens, job.prompt_len, &self.ends, job.request.max_new_tokens, context);
                token = Some(drawn);
            }
            let finish = job.finish;
            ran.push(Ran { request: it.job, place: it.place, first_position, positions, prefill, token, finish });
        }
        let memory = self.map();
        self.active.retain(|it| self.jobs[it.job].finish.is_none());
        self.steps += 1;
        Ok(ServingStep {
            index,
            admitted,
            shared,
            preempted,
            ran,
            waiting: self.queue.iter().copied().collect(),
            memory,
            milliseconds: 0.0,
        })
    }

    /// Lets requests in, first come, first served, while there are places and memory.
    fn admit(&mut self) -> (Vec<RequestId>, Vec<(RequestId, usize)>) {
        let (mut admitted, mut shared) = (Vec::new(), Vec::new());
        // A static batch is closed once it has begun.
        if self.settings.batching == Batching::Static && !self.active.is_empty() {
            return (admitted, shared);
        }
        while let Some(&job) = self.queue.front() {
            let Some(place) = self.free_place() else { break };
            let Some((cache, region)) = self.give_memory(job) else { break };
            if cache.len() > 0 {
                shared.push((job, cache.len()));
            }
            self.queue.pop_front();
            self.active.push(Active { job, place, cache, region });
            admitted.push(job);
        }
        (admitted, shared)
    }

    fn free_place(&self) -> Option<usize> {
        (0..self.settings.max_batch).find(|place| self.active.iter().all(|it| it.place != *place))
    }

    /// A cache to begin with, if the memory has room for it.
    fn give_memory(&self, id: RequestId) -> Option<(Cache, Option<(usize, usize)>)> {
        let job = &self.jobs[id];
        let Some(pool) = &self.pool else {
            let needed = job.most_slots(self.model.info().context);
            let first = self.first_gap(needed)?;
            return Some((self.model.reserved_cache(needed), Some((first, needed))));
        };
        let sharing = matches!(self.settings.memory, Memory::Paged { sharing: true, .. });
        let donor = sharing.then(|| self.best_donor(&job.tokens)).flatten();
        let (cache, common) = match donor {
            Some((donor, common)) => {
                let mut cache = self.active[donor].cache.clone();
                cache.truncate(common);
                (cache, common)
            }
            None => (self.model.sequence_in(pool), 0),
        };
        // Room for what it runs next, with a block for a copy of the one that it shares in part.
        let block = pool.block_size();
        let needed = job.tokens.len().div_ceil(block) - common / block;
        (needed <= pool.free_blocks()).then_some((cache, None))
    }

    /// Who of those served begins with the most tokens of `tokens`, and how many of them it has run. At least one is left to
    /// run, since somebody must predict.
    fn best_donor(&self, tokens: &[TokenId]) -> Option<(usize, usize)> {
        let common = |it: &Active| {
            let other = &self.jobs[it.job].tokens;
            let same = tokens.iter().zip(other).take_while(|(a, b)| a == b).count();
            same.min(it.cache.len()).min(tokens.len() - 1)
        };
        let best =
            self.active.iter().map(common).enumerate().max_by_key(|(index, common)| (*common, usize::MAX - index));
        // BOS alone, which all begin with, is not worth a copy.
        best.filter(|(_, common)| *common > 1)
    }

    /// The first run of free slots that is long enough.
    fn first_gap(&self, needed: usize) -> Option<usize> {
        let mut taken: Vec<(usize, usize)> = self.active.iter().filter_map(|it| it.region).collect();
        taken.sort_unstable();
        let mut start = 0;
        for (first, slots) in taken {
            if first - start >= needed {
                return Some(start);
            }
            start = first + slots;
        }
        (self.settings.slots >= start + needed).then_some(start)
    }

    /// Sends requests back, the newest first, until the pool has a block for everyone else's next positions.
    fn make_room(&mut self) -> Result<Vec<RequestId>, ServerError> {
        let mut preempted = Vec::new();
        let Some(pool) = self.pool.clone() else { return Ok(preempted) };
        let block = pool.block_size();
        loop {
            let needed: usize = self
                .active
                .iter()
                .map(|it| {
                    let left = self.jobs[it.job].tokens.len() - it.cache.len();
                    let n = if self.settings.chunk == 0 { left } else { left.min(self.settings.chunk) };
                    let blocks = it.cache.layout().blocks();
                    let more = (it.cache.len() + n).div_ceil(block).saturating_sub(blocks.len());
                    // Writing into a shared block takes a copy.
                    let partly = !it.cache.len().is_multiple_of(block);
                    let copy = partly && blocks.last().is_some_and(|&last| pool.references()[last] > 1);
                    more + usize::from(copy)
                })
                .sum();
            if needed <= pool.free_blocks() {
                return Ok(preempted);
            }
            // One alone always fits: that was checked before it was taken.
            let Some(last) = self.active.pop() else { return Ok(preempted) };
            self.queue.push_front(last.job);
            preempted.push(last.job);
        }
    }

    fn map(&self) -> MemoryMap {
        let mut extents: Vec<Extent> = Vec::new();
        for it in &self.active {
            if let Some((first_slot, slots)) = it.region {
                let used = it.cache.len();
                extents.push(Extent { first_slot, slots, used, owners: vec![it.job], first_position: 0 });
            }
            let Some(pool) = &self.pool else { continue };
            let slots = pool.block_size();
            for (index, &block) in it.cache.layout().blocks().iter().enumerate() {
                let used = (it.cache.len() - index * slots).min(slots);
                match extents.iter_mut().find(|extent| extent.first_slot == block * slots) {
                    // Whoever has come further fills more of it.
                    Some(extent) => {
                        extent.owners.push(it.job);
                        extent.used = extent.used.max(used);
                    }
                    None => extents.push(Extent {
                        first_slot: block * slots,
                        slots,
                        used,
                        owners: vec![it.job],
                        first_position: index * slots,
                    }),
                }
            }
        }
        extents.sort_by_key(|extent| extent.first_slot);
        let copies = self.pool.as_ref().map_or(0, BlockPool::copies);
        // What is left beside the last whole block is of no use.
        let block = self.pool.as_ref().map_or(1, BlockPool::block_size);
        MemoryMap { slots: self.settings.slots / block * block, extents, copies }
    }
}
