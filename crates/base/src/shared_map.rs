//! An ordered map whose versions share what did not change.
//!
//! In: keys and values. Out: versions: a clone costs one reference count, a change O(log n), and the differences of two
//! versions O(log n) each, whatever they hold in common. Never here: unsafe code; a recursion deeper than the tree,
//! which no choice of keys makes deep.
//!
//! A treap: the keys in order, and above every key only keys of higher priority, which a keyed hash gives each key. So
//! the keys alone determine the shape, two versions have the same subtrees wherever they have the same entries, and
//! whoever compares them can pass over what both point to.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, OnceLock};

/// See the [module's documentation](self).
pub struct SharedMap<K, V> {
    root: Link<K, V>,
    len: usize,
}

type Link<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone)]
struct Node<K, V> {
    priority: u64,
    key: K,
    value: V,
    left: Link<K, V>,
    right: Link<K, V>,
}

/// An entry in which two versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'a, K, V> {
    pub key: &'a K,
    pub before: Option<&'a V>,
    pub after: Option<&'a V>,
}

/// The keys of the process's hash. Random, so that nobody can choose names that make a tree deep.
fn hasher() -> &'static RandomState {
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    HASHER.get_or_init(RandomState::new)
}

impl<K, V> Node<K, V> {
    /// Order of the roots of trees: the greater one is above.
    fn above(&self, priority: u64, key: &K) -> Ordering
    where
        K: Ord,
    {
        self.priority.cmp(&priority).then_with(|| self.key.cmp(key))
    }
}

impl<K, V> SharedMap<K, V> {
    #[must_use]
    pub const fn new() -> SharedMap<K, V> {
        SharedMap { root: None, len: 0 }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { due: Vec::new() };
        iter.descend(&self.root);
        iter
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut link = &self.root;
        while let Some(node) = link {
            link = match key.cmp(node.key.borrow()) {
                Ordering::Less => &node.left,
                Ordering::Greater => &node.right,
                Ordering::Equal => return Some(&node.value),
            };
        }
        None
    }

    #[must_use]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The entries from this key on, in order.
    pub fn iter_from<Q: Ord + ?Sized>(&self, from: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let (mut iter, mut link) = (Iter { due: Vec::new() }, &self.root);
        while let Some(node) = link {
            if from.cmp(node.key.borrow()).is_gt() {
                link = &node.right;
            } else {
                iter.due.push(node);
                link = &node.left;
            }
        }
        iter
    }

    /// The keys from this one on, in order.
    pub fn keys_from<'a, Q: Ord + ?Sized>(&'a self, from: &Q) -> impl Iterator<Item = &'a K> + use<'a, K, V, Q>
    where
        K: Borrow<Q>,
    {
        self.iter_from(from).map(|(key, _)| key)
    }

    /// The entries in which this version differs from an earlier one, in order of their keys. `same` says whether two
    /// values count as equal.
    pub fn differences<'a>(
        &'a self,
        before: &'a SharedMap<K, V>,
        same: impl Fn(&V, &V) -> bool,
    ) -> Vec<Difference<'a, K, V>> {
        let mut found = Vec::new();
        let (mut old, mut new) = (Side::of(&before.root), Side::of(&self.root));
        loop {
            match (old.due.last().copied(), new.due.last().copied()) {
                (None, None) => return found,
                (Some(Due::Tree(one)), Some(Due::Tree(other))) if Arc::ptr_eq(one, other) => {
                    old.due.pop();
                    new.due.pop();
                }
                // Trees that both have lie below the root that is above.
                (Some(Due::Tree(one)), Some(Due::Tree(other))) => match one.above(other.priority, &other.key) {
                    Ordering::Greater => old.expand(),
                    Ordering::Less => new.expand(),
                    Ordering::Equal => {
                        old.expand();
                        new.expand();
                    }
                },
                (Some(Due::Tree(_)), _) => old.expand(),
                (_, Some(Due::Tree(_))) => new.expand(),
                (Some(Due::Entry(one)), Some(Due::Entry(other))) => {
                    let order = one.key.cmp(&other.key);
                    let (one, other) = (order.is_le().then(|| old.take(one)), order.is_ge().then(|| new.take(other)));
                    if !matches!((one, other), (Some(one), Some(other)) if same(&one.value, &other.value)) {
                        found.extend(difference(one, other));
                    }
                }
                (Some(Due::Entry(one)), None) => found.extend(difference(Some(old.take(one)), None)),
                (None, Some(Due::Entry(other))) => found.extend(difference(None, Some(new.take(other)))),
            }
        }
    }
}

fn difference<'a, K, V>(before: Option<&'a Node<K, V>>, after: Option<&'a Node<K, V>>) -> Option<Difference<'a, K, V>> {
    let key = &before.or(after)?.key;
    Some(Difference { key, before: before.map(|node| &node.value), after: after.map(|node| &node.value) })
}

/// What is left of one version in a comparison, the next at the end.
struct Side<'a, K, V> {
    due: Vec<Due<'a, K, V>>,
}

enum Due<'a, K, V> {
    Tree(&'a Arc<Node<K, V>>),
    Entry(&'a Node<K, V>),
}

impl<K, V> Clone for Due<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Due<'_, K, V> {}

impl<'a, K, V> Side<'a, K, V> {
    fn of(root: &'a Link<K, V>) -> Side<'a, K, V> {
        Side { due: root.iter().map(Due::Tree).collect() }
    }

    /// Replaces the tree that is next by its parts.
    fn expand(&mut self) {
        if let Some(Due::Tree(node)) = self.due.pop() {
            self.due.extend(node.right.as_ref().map(Due::Tree));
            self.due.push(Due::Entry(node));
            self.due.extend(node.left.as_ref().map(Due::Tree));
        }
    }

    /// Passes the entry that is next.
    fn take(&mut self, next: &'a Node<K, V>) -> &'a Node<K, V> {
        self.due.pop();
        next
    }
}

impl<K: Ord + Hash + Clone, V: Clone> SharedMap<K, V> {
    /// Sets a key's value; returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let priority = hasher().hash_one(&key);
        let old = insert(&mut self.root, key, value, priority);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes a key; returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // So that nothing is copied for a key that is not there.
        if !self.contains_key(key) {
            return None;
        }
        self.len -= 1;
        remove(&mut self.root, key)
    }
}

fn insert<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>, key: K, value: V, priority: u64) -> Option<V> {
    let Some(shared) = link else {
        *link = Some(Arc::new(Node { priority, key, value, left: None, right: None }));
        return None;
    };
    let order = key.cmp(&shared.key);
    if order.is_ne() && shared.above(priority, &key).is_lt() {
        let (left, right) = split(link.take(), &key);
        *link = Some(Arc::new(Node { priority, key, value, left, right }));
        return None;
    }
    let node = Arc::make_mut(shared);
    match order {
        Ordering::Less => insert(&mut node.left, key, value, priority),
        Ordering::Greater => insert(&mut node.right, key, value, priority),
        Ordering::Equal => Some(std::mem::replace(&mut node.value, value)),
    }
}

/// The entries before and after a key that is not there.
fn split<K: Ord + Clone, V: Clone>(link: Link<K, V>, key: &K) -> (Link<K, V>, Link<K, V>) {
    let Some(mut shared) = link else { return (None, None) };
    let node = Arc::make_mut(&mut shared);
    if node.key < *key {
        let (left, right) = split(node.right.take(), key);
        node.right = left;
        (Some(shared), right)
    } else {
        let (left, right) = split(node.left.take(), key);
        node.left = right;
        (left, Some(shared))
    }
}

fn remove<K: Ord + Clone + Borrow<Q>, V: Clone, Q: Ord + ?Sized>(link: &mut Link<K, V>, key: &Q) -> Option<V> {
    let shared = link.as_mut()?;
    match key.cmp(shared.key.borrow()) {
        Ordering::Less => remove(&mut Arc::make_mut(shared).left, key),
        Ordering::Greater => remove(&mut Arc::make_mut(shared).right, key),
        Ordering::Equal => {
            let Node { value, left, right, .. } = Arc::unwrap_or_clone(link.take()?);
            *link = joined(left, right);
            Some(value)
        }
    }
}

/// Two trees as one; all keys of the first are before those of the second.
fn joined<K: Ord + Clone, V: Clone>(left: Link<K, V>, right: Link<K, V>) -> Link<K, V> {
    match (left, right) {
        (None, one) | (one, None) => one,
        (Some(mut left), Some(mut right)) => {
            if left.above(right.priority, &right.key).is_gt() {
                let node = Arc::make_mut(&mut left);
                node.right = joined(node.right.take(), Some(right));
                Some(left)
            } else {
                let node = Arc::make_mut(&mut right);
                node.left = joined(Some(left), node.left.take());
                Some(right)
            }
        }
    }
}

/// The entries of a [`SharedMap`], in order.
pub struct Iter<'a, K, V> {
    /// Nodes whose left trees are done, the next at the end.
    due: Vec<&'a Node<K, V>>,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn descend(&mut self, mut link: &'a Link<K, V>) {
        while let Some(node) = link {
            self.due.push(node);
            link = &node.left;
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        let node = self.due.pop()?;
        self.descend(&node.right);
        Some((&node.key, &node.value))
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> SharedMap<K, V> {
        SharedMap { root: self.root.clone(), len: self.len }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> SharedMap<K, V> {
        SharedMap::new()
    }
}

impl<K: std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &SharedMap<K, V>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for SharedMap<K, V> {}

impl<K: Ord + Hash + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> SharedMap<K, V> {
        let mut map = SharedMap::new();
        entries.into_iter().for_each(|(key, value)| drop(map.insert(key, value)));
        map
    }
}

#[cfg(test)]
mod tests;
