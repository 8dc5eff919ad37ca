//! The sessions of one key, and what a row makes of them.
//!
//! A row opens a session from its time to one gap later, joins the session that it touches, or joins two that become one. Whether it
//! is late is asked of the session that comes out: a row that alone would be late counts as long as a session is open that it touches.
//!
//! Sessions of a key lie apart: there is time between the end of one and the start of the next. Each is as long as the gap at least, so
//! that a row touches two of them at most.
//!
//! Follows: MergingWindowSet, MergingWindowProcessFunction, SessionWindowAssigner, Flink 2.2. Differences: none. Flink keeps the accumulators
//! of a session under the window that it began as, and of two sessions merges those of one into those of the other; which is
//! which follows from the order of a `HashSet` of windows, as it does here.

use std::mem;

use crate::window::TimeWindow;

/// What windows of one key are to each other.
pub(super) trait Merging: Copy {
    /// Whether the two overlap or meet.
    fn touches(self, other: Self) -> bool;

    /// The least window that has both.
    fn cover(self, other: Self) -> Self;

    /// Where a Java `HashSet` of up to 12 windows lists this one.
    fn bucket(self) -> i32;
}

impl Merging for TimeWindow {
    #[inline]
    fn touches(self, other: Self) -> bool {
        self.start <= other.end && self.end >= other.start
    }

    #[inline]
    fn cover(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Follows: TimeWindow.hashCode, java.util.HashMap.
    #[expect(clippy::cast_possible_truncation, reason = "Java's casts")]
    fn bucket(self) -> i32 {
        let odd = ((self.end << 1) as i32).wrapping_add(1);
        let mut inverse = odd.wrapping_mul(odd).wrapping_mul(odd);
        for _ in 0..3 {
            inverse = inverse.wrapping_mul(2_i32.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        let hash = self.start.wrapping_add(i64::from(inverse)) as i32;
        (hash ^ (hash.cast_unsigned() >> 16).cast_signed()) & 15
    }
}

/// An open session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) window: TimeWindow,
    /// What tells it apart from the other sessions of its key, for good.
    pub(super) namespace: i64,
    /// The slot of its accumulators; [`Session::NONE`] where it has none yet.
    pub(super) slot: u32,
    /// Its number in the run of rows that is being taken; [`Session::NONE`] where no row of it belongs to the session.
    pub(super) number: u32,
    /// When, in epoch milliseconds, it is looked at again: not later than it ends.
    pub(super) timer: i64,
}

impl Session {
    pub(super) const NONE: u32 = u32::MAX;

    fn new(window: TimeWindow, namespace: i64) -> Self {
        Self { window, namespace, slot: Self::NONE, number: Self::NONE, timer: i64::MAX }
    }
}

/// The sessions of a key by start; most keys have one at a time.
#[derive(Debug, Default)]
pub(super) enum Sessions {
    #[default]
    None,
    One(Session),
    Many(Vec<Session>),
}

/// What became of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is late.
    Late,
    /// It belongs to the session at this place.
    Joined(usize),
    /// It opened the session at this place.
    Opened(usize),
    /// It made one of two sessions: the one at the place `into` has what `from` has not brought yet.
    Merged {
        /// The place of the session that stays, and now has both windows.
        into: usize,
        /// The session that is gone.
        from: Session,
    },
}

/// A session whose window would already have ended, by a row of it. It takes a zone in which local times come up in another order than
/// instants, or windows by the clock and a watermark that is ahead of the clock; Flink fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended(pub(super) TimeWindow);

/// What windows have ended, as the rules for a row want to know.
pub(super) trait Progress {
    /// Whether a row of a session with this window is late.
    fn is_late(&mut self, window: TimeWindow) -> bool;

    /// Whether a session may not get this window any more.
    fn is_past(&mut self, window: TimeWindow) -> bool;
}

impl Sessions {
    pub(super) fn as_slice(&self) -> &[Session] {
        match self {
            Self::None => &[],
            Self::One(session) => std::slice::from_ref(session),
            Self::Many(sessions) => sessions,
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Session] {
        match self {
            Self::None => &mut [],
            Self::One(session) => std::slice::from_mut(session),
            Self::Many(sessions) => sessions,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Takes a row whose own window is `own`.
    #[inline]
    pub(super) fn add(&mut self, own: TimeWindow, progress: &mut impl Progress) -> Result<Outcome, Ended> {
        if let Self::One(session) = self
            && session.window.touches(own)
        {
            extend(session, own, progress)?;
            return Ok(Outcome::Joined(0));
        }
        self.add_to_many(own, progress)
    }

    fn add_to_many(&mut self, own: TimeWindow, progress: &mut impl Progress) -> Result<Outcome, Ended> {
        let place = self.as_slice().partition_point(|session| session.window < own);
        let sessions = self.as_mut_slice();
        let (before, behind) = sessions.split_at_mut(place);
        let floor = before.last_mut().filter(|session| session.window.touches(own));
        let ceiling = behind.first_mut().filter(|session| session.window.touches(own));
        match (floor, ceiling) {
            (None, None) => {
                if progress.is_late(own) {
                    return Ok(Outcome::Late);
                }
                self.insert(place, Session::new(own, own.start));
                Ok(Outcome::Opened(place))
            }
            (Some(session), None) => {
                extend(session, own, progress)?;
                Ok(Outcome::Joined(place - 1))
            }
            (None, Some(session)) => {
                extend(session, own, progress)?;
                Ok(Outcome::Joined(place))
            }
            (Some(floor), Some(ceiling)) => {
                let window = floor.window.cover(own).cover(ceiling.window);
                if progress.is_past(window) {
                    return Err(Ended(window));
                }
                // the ceiling was added to the set first
                let (mut into, from) = match ceiling.window.bucket() <= floor.window.bucket() {
                    true => (*ceiling, *floor),
                    false => (*floor, *ceiling),
                };
                into.window = window;
                *floor = into;
                self.remove(place);
                Ok(Outcome::Merged { into: place - 1, from })
            }
        }
    }

    /// Takes a row whose window is given: it belongs to the session of that very window.
    ///
    /// Follows: TimeWindowedUnsliceAssigner, Flink 2.2.
    pub(super) fn attach(&mut self, window: TimeWindow, progress: &mut impl Progress) -> Outcome {
        match self.as_slice().binary_search_by(|session| session.window.cmp(&window)) {
            Ok(place) => Outcome::Joined(place),
            Err(_) if progress.is_late(window) => Outcome::Late,
            Err(place) => {
                let mut namespace = window.start;
                while self.as_slice().iter().any(|session| session.namespace == namespace) {
                    namespace = namespace.wrapping_add(1);
                }
                self.insert(place, Session::new(window, namespace));
                Outcome::Opened(place)
            }
        }
    }

    /// Takes over a session, which must not be there.
    pub(super) fn restore(&mut self, session: Session) {
        let place = self.as_slice().partition_point(|other| other.window < session.window);
        self.insert(place, session);
    }

    /// Forgets the session with these accumulators, and returns it.
    pub(super) fn take(&mut self, slot: u32) -> Option<Session> {
        let place = self.as_slice().iter().position(|session| session.slot == slot)?;
        let session = self.as_slice().get(place).copied();
        self.remove(place);
        session
    }

    fn insert(&mut self, place: usize, session: Session) {
        *self = match mem::take(self) {
            Self::None => Self::One(session),
            Self::One(other) => Self::Many(if place == 0 { vec![session, other] } else { vec![other, session] }),
            Self::Many(mut sessions) => {
                sessions.insert(place, session);
                Self::Many(sessions)
            }
        };
    }

    fn remove(&mut self, place: usize) {
        *self = match mem::take(self) {
            Self::None | Self::One(_) => Self::None,
            Self::Many(mut sessions) => {
                sessions.remove(place);
                match sessions.as_slice() {
                    [one] => Self::One(*one),
                    _ => Self::Many(sessions),
                }
            }
        };
    }
}

#[inline]
fn extend(session: &mut Session, own: TimeWindow, progress: &mut impl Progress) -> Result<(), Ended> {
    let window = session.window.cover(own);
    if window != session.window {
        if progress.is_past(window) {
            return Err(Ended(window));
        }
        session.window = window;
    }
    Ok(())
}
