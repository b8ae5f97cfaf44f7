//! Figures that no command of ours measures: diagrams, and those that cannot be had here.

use super::entry::{Entry, How};

const NUMA: &str = "two NUMA nodes, and a BIOS that can join them; this kind of machine has one node";
const PATCHED: &str = "a patched MySQL, which nobody ships";
const PGO: &str = "a MySQL that is built with PGO and one without; we build none";

const fn entry(
    numbers: &'static [&'static str],
    seed: &'static str,
    sentence: &'static str,
    question: &'static str,
    how: How,
) -> Entry {
    Entry { numbers, seed, sentence, number: None, question, how }
}

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    entry(
        &["10-3"],
        "000",
        "Binding MySQL primary to a single NUMA node improves BenchmarkSQL data loading speed.",
        "Does a load gain by one NUMA node?",
        How::NotHere(NUMA),
    ),
    entry(
        &["10-4"],
        "000",
        "The transaction replay process on a MySQL secondary.",
        "What does a secondary do?",
        How::Diagram("ARCHITECTURE.md, Bird's-eye view"),
    ),
    entry(
        &["10-5"],
        "000",
        "The queue model for MySQL secondary replay.",
        "Which queues does replay have?",
        How::Diagram("ARCHITECTURE.md, Threads and queues"),
    ),
    entry(
        &["10-6"],
        "000",
        "More detailed queue model for MySQL secondary replay.",
        "Which queues does replay have, in detail?",
        How::Diagram("docs/design/pipeline.md"),
    ),
    entry(
        &["10-11"],
        "000",
        "Binding MySQL secondary to a single NUMA node improves replay speed.",
        "Does replay gain by one NUMA node?",
        How::NotHere(NUMA),
    ),
    entry(
        &["10-12"],
        "000",
        "A new model for splitting the SQL thread.",
        "How is the SQL thread split?",
        How::Diagram("docs/design/pipeline.md"),
    ),
    entry(
        &["10-15"],
        "000",
        "Typical examples of sequence_number and last_committed.",
        "Which transactions may start once 12756 is done?",
        How::Diagram("its log is a test of crates/replay/tests/grain.rs; lab ablation --only wait measures it"),
    ),
    entry(
        &["10-18"],
        "000",
        "Disabling NUMA in the BIOS leads to a significant decrease in replay speed.",
        "Does replay lose by NUMA off in the BIOS?",
        How::NotHere(NUMA),
    ),
    entry(
        &["10-20"],
        "000",
        "The bottleneck of pending_jobs_lock has been alleviated in an SMP environment.",
        "Does pending_jobs_lock move down on one node?",
        How::NotHere(NUMA),
    ),
    entry(
        &["10-21"],
        "000",
        "Disabling NUMA in the BIOS improves MySQL secondary replay speed by addressing the NUMA incompatibility \
         bottleneck.",
        "Does a patched replay gain by NUMA off in the BIOS?",
        How::NotHere(NUMA),
    ),
    entry(
        &["11-1"],
        "004",
        "Impact of PGO after solving MVCC ReadView scalability problems.",
        "Does a patched MySQL gain by PGO?",
        How::NotHere(PATCHED),
    ),
    entry(
        &["11-2"],
        "004",
        "Performance comparison tests before and after using PGO in MySQL 8.0.27.",
        "Does MySQL gain by PGO?",
        How::NotHere(PGO),
    ),
    entry(
        &["11-3"],
        "004",
        "Performance comparison tests before and after using PGO in MySQL 8.0.27 under SMP.",
        "Does MySQL gain by PGO on one node?",
        How::NotHere(PGO),
    ),
    entry(
        &["11-4"],
        "004",
        "Performance of PGO optimization in different environments.",
        "Where does PGO gain most?",
        How::NotHere(PGO),
    ),
    entry(
        &["11-5"],
        "004",
        "A simplified queue model of Group Replication.",
        "Which queues does a group have?",
        How::Diagram("docs/design/group.md"),
    ),
    entry(
        &["11-6"],
        "004",
        "PGO Performance Improvement in Group Replication vs. Standalone MySQL.",
        "Does a group gain less by PGO?",
        How::NotHere(PGO),
    ),
    entry(
        &["11-10"],
        "004",
        "Less performance gain with 'dual one' disabled after addressing scalability bottlenecks in MySQL.",
        "Does a patched MySQL gain less without 'dual one'?",
        How::NotHere(PATCHED),
    ),
    entry(
        &["11-14"],
        "004",
        "Achieve better performance with spin delay 20 before MVCC ReadView optimization.",
        "Does a patched MySQL gain by a spin delay of 20?",
        How::NotHere(PATCHED),
    ),
    entry(
        &["11-15"],
        "004",
        "Comparison of throughput between MVCC ReadView optimization and spin delay 20.",
        "Which is worth more, the patch or the delay?",
        How::NotHere(PATCHED),
    ),
    entry(
        &["11-16"],
        "004",
        "Spin delay 20 has no effect after addressing MVCC ReadView scalability problems.",
        "Has the delay no effect on a patched MySQL?",
        How::NotHere(PATCHED),
    ),
    entry(
        &["11-18"],
        "004",
        "Less performance gain with binlog_order_commits off after binlog group commit optimization.",
        "Does a patched MySQL gain less by commits out of order?",
        How::NotHere(PATCHED),
    ),
];
