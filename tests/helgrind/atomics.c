/* Tells helgrind what Rust's atomics and locks order.
 *
 * Helgrind knows pthread's locks only. Rust's are atomics and futexes, so without this every row that one thread hands to
 * another looks like a race, thousands of them. This library is preloaded into the program under test; valgrind calls the
 * functions below instead of the ones they name (wrapping, valgrind's manual 3.2), and they say "happens before" and "happens
 * after" where the memory model does: a release on an address before an acquire on it. Relaxed loads and stores say nothing.
 *
 * More is said than is true in two cases, so a race that hides behind them is not seen: a read-modify-write counts as
 * acquire and release whatever its ordering (fences, which have no address, are used with those: Arc), and a
 * compare-exchange that fails as a release. loom (tests/interleavings) looks at the orderings exactly.
 *
 * Needs a build without optimisation, where each atomic access is a call: tests/helgrind/run. Names are Z-encoded: Za is *,
 * Zu _, ZZ Z, ZD $, Zd a dot; NONE is the program itself.
 */
#include <valgrind/helgrind.h>

typedef unsigned long word;
/* What Rust returns in two registers. */
typedef struct {
    word first, second;
} pair;

#define WRAPPED(name) I_WRAP_SONAME_FNNAME_ZZ(NONE, name)

/* core::sync::atomic::Ordering */
enum { RELAXED, RELEASE, ACQUIRE, ACQ_REL, SEQ_CST };

/* As valgrind's CALL_FN_W_5W, with the second register of the result. */
static pair call(OrigFn function, word a, word b, word c, word d, word e)
{
    volatile word arguments[6] = {function.nraddr, a, b, c, d, e};
    word first, second;
    __asm__ volatile(
        VALGRIND_CFI_PROLOGUE
        VALGRIND_ALIGN_STACK
        "subq $128,%%rsp\n\t"
        "movq 40(%%rax), %%r8\n\t"
        "movq 32(%%rax), %%rcx\n\t"
        "movq 24(%%rax), %%rdx\n\t"
        "movq 16(%%rax), %%rsi\n\t"
        "movq 8(%%rax), %%rdi\n\t"
        "movq (%%rax), %%rax\n\t"
        VALGRIND_CALL_NOREDIR_RAX
        VALGRIND_RESTORE_STACK
        VALGRIND_CFI_EPILOGUE
        : "=a"(first), "=d"(second)
        : "a"(&arguments[0]) __FRAME_POINTER
        : "cc", "memory", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r14", "r15");
    return (pair){first, second};
}

/* core::sync::atomic::atomic_load(from, order), Atomic*::load(&self, order) */
#define LOADS(name)                                                      \
    word WRAPPED(name)(word from, word order)                            \
    {                                                                    \
        OrigFn function;                                                 \
        VALGRIND_GET_ORIG_FN(function);                                  \
        word value = call(function, from, order, 0, 0, 0).first;         \
        if ((order & 0xff) != RELAXED)                                   \
            ANNOTATE_HAPPENS_AFTER(from);                                \
        return value;                                                    \
    }
LOADS(ZuZZN4core4sync6atomicZaatomicZuload17hZa)
LOADS(ZuZZN4core4sync6atomicZa4load17hZa)

/* core::sync::atomic::atomic_store(to, value, order), Atomic*::store(&self, value, order) */
#define STORES(name)                                                     \
    void WRAPPED(name)(word to, word value, word order)                  \
    {                                                                    \
        OrigFn function;                                                 \
        VALGRIND_GET_ORIG_FN(function);                                  \
        if ((order & 0xff) != RELAXED)                                   \
            ANNOTATE_HAPPENS_BEFORE(to);                                 \
        call(function, to, value, order, 0, 0);                          \
    }
STORES(ZuZZN4core4sync6atomicZaatomicZustore17hZa)
STORES(ZuZZN4core4sync6atomicZa5store17hZa)

/* Atomic*::swap(&self, value, order), fetch_add and the like; core::sync::atomic::atomic_compare_exchange[_weak](to, old, new,
 * order, order) */
#define READ_MODIFY_WRITE(name)                                          \
    pair WRAPPED(name)(word to, word b, word c, word d, word e)          \
    {                                                                    \
        OrigFn function;                                                 \
        VALGRIND_GET_ORIG_FN(function);                                  \
        ANNOTATE_HAPPENS_BEFORE(to);                                     \
        pair value = call(function, to, b, c, d, e);                     \
        ANNOTATE_HAPPENS_AFTER(to);                                      \
        return value;                                                    \
    }
READ_MODIFY_WRITE(ZuZZN4core4sync6atomicZa4swap17hZa)
READ_MODIFY_WRITE(ZuZZN4core4sync6atomicZafetchZuZa)
READ_MODIFY_WRITE(ZuZZN4core4sync6atomicZaatomicZucompareZuexchangeZa)

/* std's locks, where the compiled standard library has the atomics inside. What they order hangs on the lock's address, which is
 * its futex's, as in the calls above. std::sys::sync::{mutex, rwlock}::futex::…::*_contended(&self) */
#define TAKES_LOCK(name)                                                 \
    pair WRAPPED(name)(word lock, word b, word c, word d, word e)        \
    {                                                                    \
        OrigFn function;                                                 \
        VALGRIND_GET_ORIG_FN(function);                                  \
        pair value = call(function, lock, b, c, d, e);                   \
        ANNOTATE_HAPPENS_AFTER(lock);                                    \
        return value;                                                    \
    }
TAKES_LOCK(ZuRNvZa3std3sys4sync5mutex5futexZa14lockZucontended)
TAKES_LOCK(ZuRNvZa3std3sys4sync6rwlock5futexZa14readZucontended)
TAKES_LOCK(ZuRNvZa3std3sys4sync6rwlock5futexZa15writeZucontended)

/* std::sys::sync::condvar::futex::Condvar::wait(&self, mutex), wait_optional_timeout(&self, mutex, timeout): they let the mutex
 * go and take it. */
#define WAITS(name)                                                      \
    pair WRAPPED(name)(word self, word mutex, word c, word d, word e)    \
    {                                                                    \
        OrigFn function;                                                 \
        VALGRIND_GET_ORIG_FN(function);                                  \
        ANNOTATE_HAPPENS_BEFORE(mutex);                                  \
        pair value = call(function, self, mutex, c, d, e);               \
        ANNOTATE_HAPPENS_AFTER(mutex);                                   \
        return value;                                                    \
    }
WAITS(ZuRNvZa3std3sys4sync7condvar5futexZa7Condvar4wait)
WAITS(ZuRNvZa3std3sys4sync7condvar5futexZa21waitZuoptionalZutimeout)

/* std::sys::sync::once::futex::Once::call(&self, ignore_poisoning, closure): who runs it releases, who comes later acquires. */
void WRAPPED(ZuRNvZa3std3sys4sync4once5futexZa4Once4call)(word once, word b, word c, word d, word e)
{
    OrigFn function;
    VALGRIND_GET_ORIG_FN(function);
    call(function, once, b, c, d, e);
    ANNOTATE_HAPPENS_BEFORE(once);
    ANNOTATE_HAPPENS_AFTER(once);
}

/* <MutexGuard as Drop>::drop and the like: the guard's first words are the lock and what it guards. */
#define LETS_LOCK_GO(name)                                               \
    void WRAPPED(name)(const word *guard)                                \
    {                                                                    \
        OrigFn function;                                                 \
        VALGRIND_GET_ORIG_FN(function);                                  \
        ANNOTATE_HAPPENS_BEFORE(guard[0]);                               \
        ANNOTATE_HAPPENS_BEFORE(guard[1]);                               \
        call(function, (word)guard, 0, 0, 0, 0);                         \
    }
LETS_LOCK_GO(ZuZZNZamutexZdZdMutexGuardZaopsZdZddropZdZdDropZa4drop17hZa)
LETS_LOCK_GO(ZuZZNZarwlockZdZdRwLockReadGuardZaopsZdZddropZdZdDropZa4drop17hZa)
LETS_LOCK_GO(ZuZZNZarwlockZdZdRwLockWriteGuardZaopsZdZddropZdZdDropZa4drop17hZa)

/* <Arc as Drop>::drop, whose last one frees: Arc::drop_slow. The counter is where the Arc points to. */
void WRAPPED(ZuZZN71ZuZDLTZDallocZdZdsyncZdZdArcZDLTZaopsZdZddropZdZdDropZa4drop17hZa)(const word *arc)
{
    OrigFn function;
    VALGRIND_GET_ORIG_FN(function);
    ANNOTATE_HAPPENS_BEFORE(arc[0]);
    call(function, (word)arc, 0, 0, 0, 0);
}

void WRAPPED(ZuZZN5alloc4sync16ArcZa9dropZuslow17hZa)(const word *arc)
{
    OrigFn function;
    VALGRIND_GET_ORIG_FN(function);
    ANNOTATE_HAPPENS_AFTER(arc[0]);
    call(function, (word)arc, 0, 0, 0, 0);
}

/* Arc::into_inner(arc): the Arc, or the place of the result and the Arc. */
pair WRAPPED(ZuZZN5alloc4sync16ArcZa10intoZuinner17hZa)(word a, word b, word c, word d, word e)
{
    OrigFn function;
    VALGRIND_GET_ORIG_FN(function);
    ANNOTATE_HAPPENS_BEFORE(a);
    ANNOTATE_HAPPENS_BEFORE(b);
    pair value = call(function, a, b, c, d, e);
    ANNOTATE_HAPPENS_AFTER(a);
    ANNOTATE_HAPPENS_AFTER(b);
    return value;
}
