//! A *signal* is a value that views follow, and a *memo* is one that follows others. Leptos compiles all of its bookkeeping
//! anew for every type that its own signals, memos and effects hold. These leave the bookkeeping to one type each, which
//! knows only that something changed, and keep the value beside it: a quarter of the app's bytes are spared so.

use std::{any::Any, cell::RefCell, marker::PhantomData, rc::Rc};

use leptos::prelude::{self, Get, GetUntracked, GetValue, LocalStorage, Notify, StoredValue, Track};

/// A value that belongs to the owner it was made under.
type Kept = StoredValue<Rc<dyn Any>, LocalStorage>;

fn keep(value: Rc<dyn Any>) -> Kept {
    StoredValue::new_local(value)
}

/// None after the owner has gone.
fn kept(value: Kept) -> Option<Rc<dyn Any>> {
    value.try_get_value()
}

fn cell<T: 'static>(value: &Rc<dyn Any>) -> &RefCell<T> {
    value.downcast_ref().expect("what was kept is what is read")
}

/// Not written out wherever a signal is made.
#[inline(never)]
fn changing(value: Rc<dyn Any>) -> (prelude::RwSignal<()>, Kept) {
    (prelude::RwSignal::new(()), keep(value))
}

pub struct RwSignal<T> {
    changed: prelude::RwSignal<()>,
    value: Kept,
    of: PhantomData<fn(T) -> T>,
}

impl<T> Clone for RwSignal<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RwSignal<T> {}

impl<T: 'static> RwSignal<T> {
    pub fn new(value: T) -> Self {
        let (changed, value) = changing(Rc::new(RefCell::new(value)));
        Self { changed, value, of: PhantomData }
    }

    fn value(self) -> Rc<dyn Any> {
        kept(self.value).expect("the signal is still owned")
    }

    pub fn with<U>(self, read: impl FnOnce(&T) -> U) -> U {
        self.changed.track();
        self.with_untracked(read)
    }

    pub fn with_untracked<U>(self, read: impl FnOnce(&T) -> U) -> U {
        read(&cell(&self.value()).borrow())
    }

    pub fn get(self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    pub fn get_untracked(self) -> T
    where
        T: Clone,
    {
        self.with_untracked(T::clone)
    }

    pub fn set(self, value: T) {
        self.try_update(|old| *old = value);
    }

    pub fn update(self, change: impl FnOnce(&mut T)) {
        self.try_update(change);
    }

    /// None if the owner has gone.
    pub fn try_update<U>(self, change: impl FnOnce(&mut T) -> U) -> Option<U> {
        let value = kept(self.value)?;
        let result = change(&mut cell(&value).borrow_mut());
        self.changed.notify();
        Some(result)
    }

    pub fn update_untracked(self, change: impl FnOnce(&mut T)) {
        change(&mut cell(&self.value()).borrow_mut());
    }

    pub fn notify(self) {
        self.changed.notify();
    }

    pub fn track(self) {
        self.changed.track();
    }
}

pub struct Memo<T> {
    /// Counts the changes.
    version: prelude::Memo<u32>,
    value: Kept,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Memo<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Memo<T> {}

/// Puts a fresh value in the kept one's place, and says whether they differ.
type Refresh = Box<dyn Fn(&Rc<dyn Any>) -> bool + Send + Sync>;

fn version(value: Kept, refresh: Refresh) -> prelude::Memo<u32> {
    prelude::Memo::new(move |version: Option<&u32>| {
        let changed = kept(value).is_some_and(|value| refresh(&value));
        version.map_or(0, |version| version.wrapping_add(u32::from(changed)))
    })
}

impl<T: PartialEq + 'static> Memo<T> {
    pub fn new(compute: impl Fn(()) -> T + Send + Sync + 'static) -> Self {
        let value = keep(Rc::new(RefCell::new(None::<T>)));
        let refresh = move |value: &Rc<dyn Any>| {
            let fresh = Some(compute(()));
            let changed = *cell::<Option<T>>(value).borrow() != fresh;
            if changed {
                cell(value).replace(fresh);
            }
            changed
        };
        Self { version: version(value, Box::new(refresh)), value, of: PhantomData }
    }

    pub fn with<U>(self, read: impl FnOnce(&T) -> U) -> U {
        self.version.get();
        self.read(read)
    }

    pub fn with_untracked<U>(self, read: impl FnOnce(&T) -> U) -> U {
        self.version.get_untracked();
        self.read(read)
    }

    fn read<U>(self, read: impl FnOnce(&T) -> U) -> U {
        let value = kept(self.value).expect("the memo is still owned");
        read(cell::<Option<T>>(&value).borrow().as_ref().expect("it was computed just now"))
    }

    pub fn get(self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    pub fn get_untracked(self) -> T
    where
        T: Clone,
    {
        self.with_untracked(T::clone)
    }

    pub fn track(self) {
        self.version.get();
    }
}

/// Runs now, soon after the views were built, and again after each change of a signal that it read.
pub fn effect(run: impl FnMut() + 'static) {
    fn begin(run: Box<dyn FnMut()>) {
        prelude::Effect::new(run);
    }
    begin(Box::new(run));
}
