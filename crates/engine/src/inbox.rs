//! An *inbox* holds the commands that have arrived and hands them out one at a time, in their order, so that nothing is
//! begun while a command is still waiting for the GPU.
//!
//! It also keeps the promise that every command gets exactly one reply when the engine is lost in the middle of one: it
//! answers the command in hand, those that wait, and those that come later. It knows no model and no worker.

use std::collections::VecDeque;

use inferscope_trace::{Command, Fault, Reply, Subject, decode};

use crate::fault::{self, subject_of};

/// A command as it came, or what was wrong with its bytes.
pub type Arrival = Result<Command, Fault>;

#[derive(Default)]
pub struct Inbox {
    waiting: VecDeque<Arrival>,
    /// What the command being worked on is about.
    in_hand: Option<Subject>,
    lost: Option<Fault>,
}

impl Inbox {
    /// Takes in a message.
    pub fn arrive(&mut self, bytes: &[u8]) -> Option<Reply> {
        self.take_in(decode(bytes).map_err(fault::of_message))
    }

    /// Takes in a command. If the engine is already lost, the reply is known at once and returned.
    pub fn take_in(&mut self, arrival: Arrival) -> Option<Reply> {
        if let Some(fault) = &self.lost {
            return Some(Reply::Failed { subject: subject_of_arrival(&arrival), fault: fault.clone() });
        }
        self.waiting.push_back(arrival);
        None
    }

    /// The next command to work on; none while another is in hand, or when nothing waits.
    pub fn take(&mut self) -> Option<Arrival> {
        if self.in_hand.is_some() {
            return None;
        }
        let arrival = self.waiting.pop_front()?;
        self.in_hand = Some(subject_of_arrival(&arrival));
        Some(arrival)
    }

    /// The command in hand is finished. Returns whether its reply is still owed: not when the engine was lost meanwhile
    /// and `lose` has answered for it.
    #[must_use]
    pub fn finish(&mut self) -> bool {
        self.in_hand.take().is_some()
    }

    /// The engine is lost for good. Returns the replies that are owed, in the order of their commands. The first loss is
    /// the one that counts: what follows from it is not told again.
    pub fn lose(&mut self, fault: Fault) -> Vec<Reply> {
        if self.lost.is_some() {
            return Vec::new();
        }
        let waiting = self.waiting.drain(..).map(|arrival| subject_of_arrival(&arrival));
        let subjects = self.in_hand.take().into_iter().chain(waiting);
        let replies = subjects.map(|subject| Reply::Failed { subject, fault: fault.clone() }).collect();
        self.lost = Some(fault);
        replies
    }
}

fn subject_of_arrival(arrival: &Arrival) -> Subject {
    arrival.as_ref().map_or(Subject::Engine, subject_of)
}

#[cfg(test)]
mod tests {
    use inferscope_trace::{FaultKind, SessionId, encode};

    use super::*;

    fn close(session: SessionId) -> Vec<u8> {
        encode(&Command::Close { session }).unwrap()
    }

    fn fault(message: &str) -> Fault {
        Fault { kind: FaultKind::Device, message: message.into() }
    }

    fn failed(session: SessionId, message: &str) -> Reply {
        Reply::Failed { subject: Subject::Session(session), fault: fault(message) }
    }

    #[test]
    fn commands_come_out_in_order_and_one_at_a_time() {
        let mut inbox = Inbox::default();
        for session in [1, 2] {
            assert_eq!(inbox.arrive(&close(session)), None);
        }
        assert_eq!(inbox.take(), Some(Ok(Command::Close { session: 1 })));
        assert_eq!(inbox.take(), None, "the first is still in hand");
        assert!(inbox.finish());
        assert_eq!(inbox.take(), Some(Ok(Command::Close { session: 2 })));
        assert!(inbox.finish());
        assert_eq!(inbox.take(), None);
    }

    #[test]
    fn wrong_bytes_keep_their_place_in_the_order() {
        let mut inbox = Inbox::default();
        inbox.arrive(&[99]);
        inbox.arrive(&close(1));
        let fault = inbox.take().unwrap().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Internal);
        assert!(fault.message.contains("could not be read"), "{}", fault.message);
        assert!(inbox.finish());
        assert!(inbox.take().unwrap().is_ok());
    }

    #[test]
    fn a_lost_engine_answers_every_command_once() {
        let mut inbox = Inbox::default();
        for session in [1, 2] {
            inbox.arrive(&close(session));
        }
        inbox.take();
        assert_eq!(inbox.lose(fault("gone")), [failed(1, "gone"), failed(2, "gone")]);
        assert!(!inbox.finish(), "the command in hand has had its reply");
        assert_eq!(inbox.lose(fault("gone again")), []);
        assert_eq!(inbox.arrive(&close(3)), Some(failed(3, "gone")));
        assert_eq!(inbox.take(), None);
    }
}
