//! Words with a meaning, as INFORMATION_SCHEMA.KEYWORDS of a 9.7 server lists them.
//!
//! In: a bare word. Out: which keyword it is, and whether it is reserved. Never here: what a keyword means where.

use std::sync::LazyLock;

use crate::words::Words;

macro_rules! keywords {
    (reserved { $($reserved:ident $reserved_text:literal,)* } others { $($other:ident $other_text:literal,)* }) => {
        /// A keyword, or none.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Keyword {
            $($reserved,)*
            $($other,)*
            /// A word that is not a keyword, or another token.
            NotOne,
        }

        const ALL: &[Keyword] = &[$(Keyword::$reserved,)* $(Keyword::$other,)*];
        const TEXTS: &[&str] = &[$($reserved_text,)* $($other_text,)*];
        const RESERVED: usize = [$($reserved_text,)*].len();
    };
}

keywords! {
    reserved {
        Accessible "ACCESSIBLE", Add "ADD", All "ALL", Alter "ALTER", Analyze "ANALYZE", And "AND", As "AS",
        Asc "ASC", Asensitive "ASENSITIVE", Before "BEFORE", Between "BETWEEN", Bigint "BIGINT", Binary "BINARY",
        Blob "BLOB", Both "BOTH", By "BY", Call "CALL", Cascade "CASCADE", Case "CASE", Change "CHANGE", Char "CHAR",
        Character "CHARACTER", Check "CHECK", Collate "COLLATE", Column "COLUMN", Condition "CONDITION",
        Constraint "CONSTRAINT", Continue "CONTINUE", Convert "CONVERT", Create "CREATE", Cross "CROSS", Cube "CUBE",
        CumeDist "CUME_DIST", CurrentDate "CURRENT_DATE", CurrentTime "CURRENT_TIME",
        CurrentTimestamp "CURRENT_TIMESTAMP", CurrentUser "CURRENT_USER", Cursor "CURSOR", Database "DATABASE",
        Databases "DATABASES", DayHour "DAY_HOUR", DayMicrosecond "DAY_MICROSECOND", DayMinute "DAY_MINUTE",
        DaySecond "DAY_SECOND", Dec "DEC", Decimal "DECIMAL", Declare "DECLARE", Default "DEFAULT", Delayed "DELAYED",
        Delete "DELETE", DenseRank "DENSE_RANK", Desc "DESC", Describe "DESCRIBE", Deterministic "DETERMINISTIC",
        Distinct "DISTINCT", Distinctrow "DISTINCTROW", Div "DIV", Double "DOUBLE", Drop "DROP", Dual "DUAL",
        Each "EACH", Else "ELSE", Elseif "ELSEIF", Empty "EMPTY", Enclosed "ENCLOSED", Escaped "ESCAPED",
        Except "EXCEPT", Exists "EXISTS", Exit "EXIT", Explain "EXPLAIN", External "EXTERNAL", False "FALSE",
        Fetch "FETCH", FirstValue "FIRST_VALUE", Float "FLOAT", Float4 "FLOAT4", Float8 "FLOAT8", For "FOR",
        Force "FORCE", Foreign "FOREIGN", From "FROM", Fulltext "FULLTEXT", Function "FUNCTION",
        Generated "GENERATED", Get "GET", Grant "GRANT", Group "GROUP", Grouping "GROUPING", Groups "GROUPS",
        Having "HAVING", HighPriority "HIGH_PRIORITY", HourMicrosecond "HOUR_MICROSECOND", HourMinute "HOUR_MINUTE",
        HourSecond "HOUR_SECOND", If "IF", Ignore "IGNORE", In "IN", Index "INDEX", Infile "INFILE", Inner "INNER",
        Inout "INOUT", Insensitive "INSENSITIVE", Insert "INSERT", Int "INT", Int1 "INT1", Int2 "INT2", Int3 "INT3",
        Int4 "INT4", Int8 "INT8", Integer "INTEGER", Intersect "INTERSECT", Interval "INTERVAL", Into "INTO",
        IoAfterGtids "IO_AFTER_GTIDS", IoBeforeGtids "IO_BEFORE_GTIDS", Is "IS", Iterate "ITERATE", Join "JOIN",
        JsonTable "JSON_TABLE", Key "KEY", Keys "KEYS", Kill "KILL", Lag "LAG", LastValue "LAST_VALUE",
        Lateral "LATERAL", Lead "LEAD", Leading "LEADING", Leave "LEAVE", Left "LEFT", Library "LIBRARY", Like "LIKE",
        Limit "LIMIT", Linear "LINEAR", Lines "LINES", Load "LOAD", Localtime "LOCALTIME",
        Localtimestamp "LOCALTIMESTAMP", Lock "LOCK", Long "LONG", Longblob "LONGBLOB", Longtext "LONGTEXT",
        Loop "LOOP", LowPriority "LOW_PRIORITY", Match "MATCH", Maxvalue "MAXVALUE", Mediumblob "MEDIUMBLOB",
        Mediumint "MEDIUMINT", Mediumtext "MEDIUMTEXT", Middleint "MIDDLEINT", MinuteMicrosecond "MINUTE_MICROSECOND",
        MinuteSecond "MINUTE_SECOND", Mod "MOD", Modifies "MODIFIES", Natural "NATURAL", Not "NOT",
        NoWriteToBinlog "NO_WRITE_TO_BINLOG", NthValue "NTH_VALUE", Ntile "NTILE", Null "NULL", Numeric "NUMERIC",
        Of "OF", On "ON", Optimize "OPTIMIZE", OptimizerCosts "OPTIMIZER_COSTS", Option "OPTION",
        Optionally "OPTIONALLY", Or "OR", Order "ORDER", Out "OUT", Outer "OUTER", Outfile "OUTFILE", Over "OVER",
        Partition "PARTITION", PercentRank "PERCENT_RANK", Precision "PRECISION", Primary "PRIMARY",
        Procedure "PROCEDURE", Purge "PURGE", Qualify "QUALIFY", Range "RANGE", Rank "RANK", Read "READ",
        Reads "READS", ReadWrite "READ_WRITE", Real "REAL", Recursive "RECURSIVE", References "REFERENCES",
        Regexp "REGEXP", Release "RELEASE", Rename "RENAME", Repeat "REPEAT", Replace "REPLACE", Require "REQUIRE",
        Resignal "RESIGNAL", Restrict "RESTRICT", Return "RETURN", Revoke "REVOKE", Right "RIGHT", Rlike "RLIKE",
        Row "ROW", Rows "ROWS", RowNumber "ROW_NUMBER", Schema "SCHEMA", Schemas "SCHEMAS",
        SecondMicrosecond "SECOND_MICROSECOND", Select "SELECT", Sensitive "SENSITIVE", Separator "SEPARATOR",
        Set "SET", Show "SHOW", Signal "SIGNAL", Smallint "SMALLINT", Spatial "SPATIAL", Specific "SPECIFIC",
        Sql "SQL", Sqlexception "SQLEXCEPTION", Sqlstate "SQLSTATE", Sqlwarning "SQLWARNING",
        SqlBigResult "SQL_BIG_RESULT", SqlCalcFoundRows "SQL_CALC_FOUND_ROWS", SqlSmallResult "SQL_SMALL_RESULT",
        Ssl "SSL", Starting "STARTING", Stored "STORED", StraightJoin "STRAIGHT_JOIN", System "SYSTEM", Table "TABLE",
        Tablesample "TABLESAMPLE", Terminated "TERMINATED", Then "THEN", Tinyblob "TINYBLOB", Tinyint "TINYINT",
        Tinytext "TINYTEXT", To "TO", Trailing "TRAILING", Trigger "TRIGGER", True "TRUE", Undo "UNDO", Union "UNION",
        Unique "UNIQUE", Unlock "UNLOCK", Unsigned "UNSIGNED", Update "UPDATE", Usage "USAGE", Use "USE",
        Using "USING", UtcDate "UTC_DATE", UtcTime "UTC_TIME", UtcTimestamp "UTC_TIMESTAMP", Values "VALUES",
        Varbinary "VARBINARY", Varchar "VARCHAR", Varcharacter "VARCHARACTER", Varying "VARYING", Virtual "VIRTUAL",
        When "WHEN", Where "WHERE", While "WHILE", Window "WINDOW", With "WITH", Write "WRITE", Xor "XOR",
        YearMonth "YEAR_MONTH", Zerofill "ZEROFILL",
    }
    others {
        Absent "ABSENT", Account "ACCOUNT", Action "ACTION", Active "ACTIVE", Admin "ADMIN", After "AFTER",
        Against "AGAINST", Aggregate "AGGREGATE", Algorithm "ALGORITHM", AllowMissingFiles "ALLOW_MISSING_FILES",
        Always "ALWAYS", Any "ANY", Array "ARRAY", Ascii "ASCII",
        AssignGtidsToAnonymousTransactions "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS", At "AT", Attribute "ATTRIBUTE",
        Authentication "AUTHENTICATION", Auto "AUTO", AutoextendSize "AUTOEXTEND_SIZE",
        AutoIncrement "AUTO_INCREMENT", AutoRefresh "AUTO_REFRESH", AutoRefreshSource "AUTO_REFRESH_SOURCE",
        Avg "AVG", AvgRowLength "AVG_ROW_LENGTH", Backup "BACKUP", Begin "BEGIN", Bernoulli "BERNOULLI",
        Binlog "BINLOG", Bit "BIT", Block "BLOCK", Bool "BOOL", Boolean "BOOLEAN", Btree "BTREE", Buckets "BUCKETS",
        Bulk "BULK", Byte "BYTE", Cache "CACHE", Cascaded "CASCADED", CatalogName "CATALOG_NAME", Chain "CHAIN",
        ChallengeResponse "CHALLENGE_RESPONSE", Changed "CHANGED", Channel "CHANNEL", Charset "CHARSET",
        Checksum "CHECKSUM", Cipher "CIPHER", ClassOrigin "CLASS_ORIGIN", Client "CLIENT", Clone "CLONE",
        Close "CLOSE", Coalesce "COALESCE", Code "CODE", Collation "COLLATION", Columns "COLUMNS",
        ColumnFormat "COLUMN_FORMAT", ColumnName "COLUMN_NAME", Comment "COMMENT", Commit "COMMIT",
        Committed "COMMITTED", Compact "COMPACT", Completion "COMPLETION", Component "COMPONENT",
        Compressed "COMPRESSED", Compression "COMPRESSION", Concurrent "CONCURRENT", Connection "CONNECTION",
        Consistent "CONSISTENT", ConstraintCatalog "CONSTRAINT_CATALOG", ConstraintName "CONSTRAINT_NAME",
        ConstraintSchema "CONSTRAINT_SCHEMA", Contains "CONTAINS", Context "CONTEXT", Cpu "CPU", Current "CURRENT",
        CursorName "CURSOR_NAME", Data "DATA", Datafile "DATAFILE", Date "DATE", Datetime "DATETIME", Day "DAY",
        Deallocate "DEALLOCATE", DefaultAuth "DEFAULT_AUTH", Definer "DEFINER", Definition "DEFINITION",
        DelayKeyWrite "DELAY_KEY_WRITE", Description "DESCRIPTION", Diagnostics "DIAGNOSTICS", Directory "DIRECTORY",
        Disable "DISABLE", Discard "DISCARD", Disk "DISK", Do "DO", Duality "DUALITY", Dumpfile "DUMPFILE",
        Duplicate "DUPLICATE", Dynamic "DYNAMIC", Enable "ENABLE", Encryption "ENCRYPTION", End "END", Ends "ENDS",
        Enforced "ENFORCED", Engine "ENGINE", Engines "ENGINES", EngineAttribute "ENGINE_ATTRIBUTE", Enum "ENUM",
        Error "ERROR", Errors "ERRORS", Escape "ESCAPE", Event "EVENT", Events "EVENTS", Every "EVERY",
        Exchange "EXCHANGE", Exclude "EXCLUDE", Execute "EXECUTE", Expansion "EXPANSION", Expire "EXPIRE",
        Export "EXPORT", Extended "EXTENDED", ExtentSize "EXTENT_SIZE", ExternalFormat "EXTERNAL_FORMAT",
        Factor "FACTOR", FailedLoginAttempts "FAILED_LOGIN_ATTEMPTS", Fast "FAST", Faults "FAULTS", Fields "FIELDS",
        File "FILE", Files "FILES", FileBlockSize "FILE_BLOCK_SIZE", FileFormat "FILE_FORMAT", FileName "FILE_NAME",
        FilePattern "FILE_PATTERN", FilePrefix "FILE_PREFIX", Filter "FILTER", Finish "FINISH", First "FIRST",
        Fixed "FIXED", Flush "FLUSH", Following "FOLLOWING", Follows "FOLLOWS", Format "FORMAT", Found "FOUND",
        Full "FULL", General "GENERAL", Generate "GENERATE", Geomcollection "GEOMCOLLECTION", Geometry "GEOMETRY",
        Geometrycollection "GEOMETRYCOLLECTION", GetFormat "GET_FORMAT", GetSourcePublicKey "GET_SOURCE_PUBLIC_KEY",
        Global "GLOBAL", Grants "GRANTS", GroupReplication "GROUP_REPLICATION", Gtids "GTIDS", GtidOnly "GTID_ONLY",
        Guided "GUIDED", Handler "HANDLER", Hash "HASH", Header "HEADER", Help "HELP", Histogram "HISTOGRAM",
        History "HISTORY", Host "HOST", Hosts "HOSTS", Hour "HOUR", Identified "IDENTIFIED",
        IgnoreServerIds "IGNORE_SERVER_IDS", Import "IMPORT", Inactive "INACTIVE", Indexes "INDEXES",
        Initial "INITIAL", InitialSize "INITIAL_SIZE", Initiate "INITIATE", InsertMethod "INSERT_METHOD",
        Install "INSTALL", Instance "INSTANCE", Invisible "INVISIBLE", Invoker "INVOKER", Io "IO",
        IoThread "IO_THREAD", Ipc "IPC", Isolation "ISOLATION", Issuer "ISSUER", Json "JSON", JsonValue "JSON_VALUE",
        Keyring "KEYRING", KeyBlockSize "KEY_BLOCK_SIZE", Language "LANGUAGE", Last "LAST", Leaves "LEAVES",
        Less "LESS", Level "LEVEL", Linestring "LINESTRING", List "LIST", Local "LOCAL", Locked "LOCKED",
        Locks "LOCKS", Log "LOG", Logfile "LOGFILE", Logs "LOGS", Manual "MANUAL", Masking "MASKING", Master "MASTER",
        Materialized "MATERIALIZED", MaxConnectionsPerHour "MAX_CONNECTIONS_PER_HOUR",
        MaxQueriesPerHour "MAX_QUERIES_PER_HOUR", MaxRows "MAX_ROWS", MaxSize "MAX_SIZE",
        MaxUpdatesPerHour "MAX_UPDATES_PER_HOUR", MaxUserConnections "MAX_USER_CONNECTIONS", Medium "MEDIUM",
        Member "MEMBER", Memory "MEMORY", Merge "MERGE", MessageText "MESSAGE_TEXT", Microsecond "MICROSECOND",
        Migrate "MIGRATE", Minute "MINUTE", MinRows "MIN_ROWS", Mode "MODE", Modify "MODIFY", Month "MONTH",
        Multilinestring "MULTILINESTRING", Multipoint "MULTIPOINT", Multipolygon "MULTIPOLYGON", Mutex "MUTEX",
        MysqlErrno "MYSQL_ERRNO", Name "NAME", Names "NAMES", National "NATIONAL", Nchar "NCHAR", Ndb "NDB",
        Ndbcluster "NDBCLUSTER", Nested "NESTED", NetworkNamespace "NETWORK_NAMESPACE", Never "NEVER", New "NEW",
        Next "NEXT", No "NO", Nodegroup "NODEGROUP", None "NONE", Nowait "NOWAIT", NoWait "NO_WAIT", Nulls "NULLS",
        Number "NUMBER", Nvarchar "NVARCHAR", Off "OFF", Offset "OFFSET", Oj "OJ", Old "OLD", One "ONE", Only "ONLY",
        Open "OPEN", Optional "OPTIONAL", Options "OPTIONS", Ordinality "ORDINALITY", Organization "ORGANIZATION",
        Others "OTHERS", Owner "OWNER", PackKeys "PACK_KEYS", Page "PAGE", Parallel "PARALLEL",
        Parameters "PARAMETERS", Parser "PARSER", ParseTree "PARSE_TREE", Partial "PARTIAL",
        Partitioning "PARTITIONING", Partitions "PARTITIONS", Password "PASSWORD",
        PasswordLockTime "PASSWORD_LOCK_TIME", Path "PATH", Persist "PERSIST", PersistOnly "PERSIST_ONLY",
        Phase "PHASE", Plugin "PLUGIN", Plugins "PLUGINS", PluginDir "PLUGIN_DIR", Point "POINT", Policy "POLICY",
        Polygon "POLYGON", Port "PORT", Precedes "PRECEDES", Preceding "PRECEDING", Prepare "PREPARE",
        Preserve "PRESERVE", Prev "PREV", Privileges "PRIVILEGES", PrivilegeChecksUser "PRIVILEGE_CHECKS_USER",
        Process "PROCESS", Processlist "PROCESSLIST", Profile "PROFILE", Profiles "PROFILES", Proxy "PROXY",
        Quarter "QUARTER", Query "QUERY", Quick "QUICK", Random "RANDOM", ReadOnly "READ_ONLY", Rebuild "REBUILD",
        Recover "RECOVER", RedoBufferSize "REDO_BUFFER_SIZE", Redundant "REDUNDANT", Reference "REFERENCE",
        Registration "REGISTRATION", Relational "RELATIONAL", Relay "RELAY", Relaylog "RELAYLOG",
        RelayLogFile "RELAY_LOG_FILE", RelayLogPos "RELAY_LOG_POS", RelayThread "RELAY_THREAD", Reload "RELOAD",
        Remove "REMOVE", Reorganize "REORGANIZE", Repair "REPAIR", Repeatable "REPEATABLE", Replica "REPLICA",
        Replicas "REPLICAS", ReplicateDoDb "REPLICATE_DO_DB", ReplicateDoTable "REPLICATE_DO_TABLE",
        ReplicateIgnoreDb "REPLICATE_IGNORE_DB", ReplicateIgnoreTable "REPLICATE_IGNORE_TABLE",
        ReplicateRewriteDb "REPLICATE_REWRITE_DB", ReplicateWildDoTable "REPLICATE_WILD_DO_TABLE",
        ReplicateWildIgnoreTable "REPLICATE_WILD_IGNORE_TABLE", Replication "REPLICATION",
        RequireRowFormat "REQUIRE_ROW_FORMAT", RequireTablePrimaryKeyCheck "REQUIRE_TABLE_PRIMARY_KEY_CHECK",
        Reset "RESET", Resource "RESOURCE", Respect "RESPECT", Restart "RESTART", Restore "RESTORE", Resume "RESUME",
        Retain "RETAIN", ReturnedSqlstate "RETURNED_SQLSTATE", Returning "RETURNING", Returns "RETURNS",
        Reuse "REUSE", Reverse "REVERSE", Role "ROLE", Rollback "ROLLBACK", Rollup "ROLLUP", Rotate "ROTATE",
        Routine "ROUTINE", RowCount "ROW_COUNT", RowFormat "ROW_FORMAT", Rtree "RTREE", S3 "S3",
        Savepoint "SAVEPOINT", Schedule "SCHEDULE", SchemaName "SCHEMA_NAME", Second "SECOND", Secondary "SECONDARY",
        SecondaryEngine "SECONDARY_ENGINE", SecondaryEngineAttribute "SECONDARY_ENGINE_ATTRIBUTE",
        SecondaryLoad "SECONDARY_LOAD", SecondaryUnload "SECONDARY_UNLOAD", Security "SECURITY", Serial "SERIAL",
        Serializable "SERIALIZABLE", Server "SERVER", Session "SESSION", Sets "SETS", Share "SHARE",
        Shutdown "SHUTDOWN", Signed "SIGNED", Simple "SIMPLE", Skip "SKIP", Slave "SLAVE", Slow "SLOW",
        Snapshot "SNAPSHOT", Socket "SOCKET", Some "SOME", Soname "SONAME", Sounds "SOUNDS", Source "SOURCE",
        SourceAutoPosition "SOURCE_AUTO_POSITION", SourceBind "SOURCE_BIND",
        SourceCompressionAlgorithms "SOURCE_COMPRESSION_ALGORITHMS",
        SourceConnectionAutoFailover "SOURCE_CONNECTION_AUTO_FAILOVER", SourceConnectRetry "SOURCE_CONNECT_RETRY",
        SourceDelay "SOURCE_DELAY", SourceHeartbeatPeriod "SOURCE_HEARTBEAT_PERIOD", SourceHost "SOURCE_HOST",
        SourceLogFile "SOURCE_LOG_FILE", SourceLogPos "SOURCE_LOG_POS", SourcePassword "SOURCE_PASSWORD",
        SourcePort "SOURCE_PORT", SourcePublicKeyPath "SOURCE_PUBLIC_KEY_PATH", SourceRetryCount "SOURCE_RETRY_COUNT",
        SourceSsl "SOURCE_SSL", SourceSslCa "SOURCE_SSL_CA", SourceSslCapath "SOURCE_SSL_CAPATH",
        SourceSslCert "SOURCE_SSL_CERT", SourceSslCipher "SOURCE_SSL_CIPHER", SourceSslCrl "SOURCE_SSL_CRL",
        SourceSslCrlpath "SOURCE_SSL_CRLPATH", SourceSslKey "SOURCE_SSL_KEY",
        SourceSslVerifyServerCert "SOURCE_SSL_VERIFY_SERVER_CERT", SourceTlsCiphersuites "SOURCE_TLS_CIPHERSUITES",
        SourceTlsVersion "SOURCE_TLS_VERSION", SourceUser "SOURCE_USER",
        SourceZstdCompressionLevel "SOURCE_ZSTD_COMPRESSION_LEVEL", SqlAfterGtids "SQL_AFTER_GTIDS",
        SqlAfterMtsGaps "SQL_AFTER_MTS_GAPS", SqlBeforeGtids "SQL_BEFORE_GTIDS", SqlBufferResult "SQL_BUFFER_RESULT",
        SqlNoCache "SQL_NO_CACHE", SqlThread "SQL_THREAD", SqlTsiDay "SQL_TSI_DAY", SqlTsiHour "SQL_TSI_HOUR",
        SqlTsiMinute "SQL_TSI_MINUTE", SqlTsiMonth "SQL_TSI_MONTH", SqlTsiQuarter "SQL_TSI_QUARTER",
        SqlTsiSecond "SQL_TSI_SECOND", SqlTsiWeek "SQL_TSI_WEEK", SqlTsiYear "SQL_TSI_YEAR", Srid "SRID",
        Stacked "STACKED", Start "START", Starts "STARTS", StatsAutoRecalc "STATS_AUTO_RECALC",
        StatsPersistent "STATS_PERSISTENT", StatsSamplePages "STATS_SAMPLE_PAGES", Status "STATUS", Stop "STOP",
        Storage "STORAGE", Stream "STREAM", StrictLoad "STRICT_LOAD", String "STRING",
        SubclassOrigin "SUBCLASS_ORIGIN", Subject "SUBJECT", Subpartition "SUBPARTITION",
        Subpartitions "SUBPARTITIONS", Super "SUPER", Suspend "SUSPEND", Swaps "SWAPS", Switches "SWITCHES",
        Tables "TABLES", Tablespace "TABLESPACE", TableChecksum "TABLE_CHECKSUM", TableName "TABLE_NAME",
        Temporary "TEMPORARY", Temptable "TEMPTABLE", Text "TEXT", Than "THAN", ThreadPriority "THREAD_PRIORITY",
        Ties "TIES", Time "TIME", Timestamp "TIMESTAMP", Timestampadd "TIMESTAMPADD", Timestampdiff "TIMESTAMPDIFF",
        Tls "TLS", Transaction "TRANSACTION", Triggers "TRIGGERS", Truncate "TRUNCATE", Type "TYPE", Types "TYPES",
        Unbounded "UNBOUNDED", Uncommitted "UNCOMMITTED", Undefined "UNDEFINED", Undofile "UNDOFILE",
        UndoBufferSize "UNDO_BUFFER_SIZE", Unicode "UNICODE", Uninstall "UNINSTALL", Unknown "UNKNOWN",
        Unregister "UNREGISTER", Until "UNTIL", Upgrade "UPGRADE", Uri "URI", Url "URL", User "USER",
        UserResources "USER_RESOURCES", UseFrm "USE_FRM", Validate "VALIDATE", Validation "VALIDATION", Value "VALUE",
        Variables "VARIABLES", Vcpu "VCPU", Vector "VECTOR", VerifyKeyConstraints "VERIFY_KEY_CONSTRAINTS",
        View "VIEW", Visible "VISIBLE", Wait "WAIT", Warnings "WARNINGS", Week "WEEK", WeightString "WEIGHT_STRING",
        Without "WITHOUT", Work "WORK", Wrapper "WRAPPER", X509 "X509", Xa "XA", Xid "XID", Xml "XML", Year "YEAR",
        Zone "ZONE",
    }
}

static WORDS: LazyLock<Words> = LazyLock::new(|| Words::new(TEXTS));

impl Keyword {
    /// The keyword that a bare word is, in any case of its letters.
    #[must_use]
    pub fn of(word: &[u8]) -> Keyword {
        WORDS.find(word).and_then(|place| ALL.get(place)).copied().unwrap_or(Keyword::NotOne)
    }

    /// True if it is no name without quotes, but directly before or after a dot.
    #[must_use]
    pub fn is_reserved(self) -> bool {
        (self as usize) < RESERVED
    }

    /// In capitals; empty for none.
    #[must_use]
    pub fn text(self) -> &'static str {
        TEXTS.get(self as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (keyword, text) in ALL.iter().zip(TEXTS) {
            assert_eq!(Keyword::of(text.as_bytes()), *keyword);
            assert_eq!(Keyword::of(text.to_lowercase().as_bytes()), *keyword);
            assert_eq!(keyword.text(), *text);
        }
        for word in ["", "selec", "selectt", "se_ect", "a_word_that_is_longer_than_every_keyword_of_every_list"] {
            assert_eq!(Keyword::of(word.as_bytes()), Keyword::NotOne, "{word}");
        }
        assert!(Keyword::Select.is_reserved() && !Keyword::Action.is_reserved() && !Keyword::NotOne.is_reserved());
        assert_eq!(Keyword::NotOne.text(), "");
    }
}
