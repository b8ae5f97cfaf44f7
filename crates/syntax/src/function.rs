//! MySQL's own functions, as a 9.7 server knows them.
//!
//! In: a name before a bracket. Out: which function it is. Never here: their arguments' meaning; stored and loadable
//! functions, which have names only.

use std::sync::LazyLock;

use crate::words::Words;

macro_rules! functions {
    ($($function:ident $text:literal,)*) => {
        /// A function that the server has itself; no stored function can take its place.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Function {
            $($function,)*
        }

        const ALL: &[Function] = &[$(Function::$function,)*];
        const TEXTS: &[&str] = &[$($text,)*];
    };
}

functions! {
    Abs "ABS", Acos "ACOS", Adddate "ADDDATE", Addtime "ADDTIME", AesDecrypt "AES_DECRYPT", AesEncrypt "AES_ENCRYPT",
    AnyValue "ANY_VALUE", Ascii "ASCII", Asin "ASIN", Atan "ATAN", Atan2 "ATAN2", Avg "AVG", Benchmark "BENCHMARK",
    Bin "BIN", BinToUuid "BIN_TO_UUID", BitAnd "BIT_AND", BitCount "BIT_COUNT", BitLength "BIT_LENGTH",
    BitOr "BIT_OR", BitXor "BIT_XOR", CanAccessColumn "CAN_ACCESS_COLUMN", CanAccessDatabase "CAN_ACCESS_DATABASE",
    CanAccessEvent "CAN_ACCESS_EVENT", CanAccessResourceGroup "CAN_ACCESS_RESOURCE_GROUP",
    CanAccessRoutine "CAN_ACCESS_ROUTINE", CanAccessTable "CAN_ACCESS_TABLE", CanAccessTrigger "CAN_ACCESS_TRIGGER",
    CanAccessUser "CAN_ACCESS_USER", CanAccessView "CAN_ACCESS_VIEW", Cast "CAST", Ceil "CEIL", Ceiling "CEILING",
    Char "CHAR", CharacterLength "CHARACTER_LENGTH", Charset "CHARSET", CharLength "CHAR_LENGTH", Coalesce "COALESCE",
    Coercibility "COERCIBILITY", Collation "COLLATION", Compress "COMPRESS", Concat "CONCAT", ConcatWs "CONCAT_WS",
    ConnectionId "CONNECTION_ID", Conv "CONV", Convert "CONVERT", ConvertCpuIdMask "CONVERT_CPU_ID_MASK",
    ConvertIntervalToUserInterval "CONVERT_INTERVAL_TO_USER_INTERVAL", ConvertTz "CONVERT_TZ", Cos "COS", Cot "COT",
    Count "COUNT", Crc32 "CRC32", CumeDist "CUME_DIST", Curdate "CURDATE", CurrentDate "CURRENT_DATE",
    CurrentRole "CURRENT_ROLE", CurrentRoleIn "CURRENT_ROLE_IN", CurrentTime "CURRENT_TIME",
    CurrentTimestamp "CURRENT_TIMESTAMP", CurrentUser "CURRENT_USER", CurrentUserIn "CURRENT_USER_IN",
    Curtime "CURTIME", Database "DATABASE", Date "DATE", Datediff "DATEDIFF", DateAdd "DATE_ADD",
    DateFormat "DATE_FORMAT", DateSub "DATE_SUB", Day "DAY", Dayname "DAYNAME", Dayofmonth "DAYOFMONTH",
    Dayofweek "DAYOFWEEK", Dayofyear "DAYOFYEAR", Degrees "DEGREES", DenseRank "DENSE_RANK", Elt "ELT", Etag "ETAG",
    Exp "EXP", ExportSet "EXPORT_SET", Extract "EXTRACT", Extractvalue "EXTRACTVALUE", Field "FIELD",
    FindInSet "FIND_IN_SET", FirstValue "FIRST_VALUE", Floor "FLOOR", Format "FORMAT", FormatBytes "FORMAT_BYTES",
    FormatPicoTime "FORMAT_PICO_TIME", FoundRows "FOUND_ROWS", FromBase64 "FROM_BASE64", FromDays "FROM_DAYS",
    FromUnixtime "FROM_UNIXTIME", FromVector "FROM_VECTOR", Geomcollection "GEOMCOLLECTION",
    Geometrycollection "GEOMETRYCOLLECTION", GetDdColumnPrivileges "GET_DD_COLUMN_PRIVILEGES",
    GetDdCreateOptions "GET_DD_CREATE_OPTIONS", GetDdIndexPrivateData "GET_DD_INDEX_PRIVATE_DATA",
    GetDdIndexSubPartLength "GET_DD_INDEX_SUB_PART_LENGTH", GetDdPropertyKeyValue "GET_DD_PROPERTY_KEY_VALUE",
    GetDdSchemaOptions "GET_DD_SCHEMA_OPTIONS", GetDdTablespacePrivateData "GET_DD_TABLESPACE_PRIVATE_DATA",
    GetFormat "GET_FORMAT", GetJdvPropertyKeyValue "GET_JDV_PROPERTY_KEY_VALUE", GetLock "GET_LOCK",
    Greatest "GREATEST", Grouping "GROUPING", GroupConcat "GROUP_CONCAT", GtidSubset "GTID_SUBSET",
    GtidSubtract "GTID_SUBTRACT", Hex "HEX", Hour "HOUR", IcuVersion "ICU_VERSION", If "IF", Ifnull "IFNULL",
    Inet6Aton "INET6_ATON", Inet6Ntoa "INET6_NTOA", InetAton "INET_ATON", InetNtoa "INET_NTOA", Insert "INSERT",
    Instr "INSTR", InternalAutoIncrement "INTERNAL_AUTO_INCREMENT", InternalAvgRowLength "INTERNAL_AVG_ROW_LENGTH",
    InternalChecksum "INTERNAL_CHECKSUM", InternalCheckTime "INTERNAL_CHECK_TIME",
    InternalDataFree "INTERNAL_DATA_FREE", InternalDataLength "INTERNAL_DATA_LENGTH",
    InternalDdCharLength "INTERNAL_DD_CHAR_LENGTH", InternalGetCommentOrError "INTERNAL_GET_COMMENT_OR_ERROR",
    InternalGetDdColumnExtra "INTERNAL_GET_DD_COLUMN_EXTRA",
    InternalGetEnabledRoleJson "INTERNAL_GET_ENABLED_ROLE_JSON", InternalGetHostname "INTERNAL_GET_HOSTNAME",
    InternalGetMandatoryRolesJson "INTERNAL_GET_MANDATORY_ROLES_JSON",
    InternalGetPartitionNodegroup "INTERNAL_GET_PARTITION_NODEGROUP", InternalGetUsername "INTERNAL_GET_USERNAME",
    InternalGetViewWarningOrError "INTERNAL_GET_VIEW_WARNING_OR_ERROR",
    InternalIndexColumnCardinality "INTERNAL_INDEX_COLUMN_CARDINALITY", InternalIndexLength "INTERNAL_INDEX_LENGTH",
    InternalIsEnabledRole "INTERNAL_IS_ENABLED_ROLE", InternalIsMandatoryRole "INTERNAL_IS_MANDATORY_ROLE",
    InternalKeysDisabled "INTERNAL_KEYS_DISABLED", InternalMaxDataLength "INTERNAL_MAX_DATA_LENGTH",
    InternalTablespaceAutoextendSize "INTERNAL_TABLESPACE_AUTOEXTEND_SIZE",
    InternalTablespaceDataFree "INTERNAL_TABLESPACE_DATA_FREE",
    InternalTablespaceExtentSize "INTERNAL_TABLESPACE_EXTENT_SIZE",
    InternalTablespaceExtra "INTERNAL_TABLESPACE_EXTRA",
    InternalTablespaceFreeExtents "INTERNAL_TABLESPACE_FREE_EXTENTS", InternalTablespaceId "INTERNAL_TABLESPACE_ID",
    InternalTablespaceInitialSize "INTERNAL_TABLESPACE_INITIAL_SIZE",
    InternalTablespaceLogfileGroupName "INTERNAL_TABLESPACE_LOGFILE_GROUP_NAME",
    InternalTablespaceLogfileGroupNumber "INTERNAL_TABLESPACE_LOGFILE_GROUP_NUMBER",
    InternalTablespaceMaximumSize "INTERNAL_TABLESPACE_MAXIMUM_SIZE",
    InternalTablespaceRowFormat "INTERNAL_TABLESPACE_ROW_FORMAT",
    InternalTablespaceStatus "INTERNAL_TABLESPACE_STATUS",
    InternalTablespaceTotalExtents "INTERNAL_TABLESPACE_TOTAL_EXTENTS",
    InternalTablespaceType "INTERNAL_TABLESPACE_TYPE", InternalTablespaceVersion "INTERNAL_TABLESPACE_VERSION",
    InternalTableRows "INTERNAL_TABLE_ROWS", InternalUpdateTime "INTERNAL_UPDATE_TIME",
    InternalUseTerminologyPrevious "INTERNAL_USE_TERMINOLOGY_PREVIOUS", Interval "INTERVAL", Isnull "ISNULL",
    IsFreeLock "IS_FREE_LOCK", IsIpv4 "IS_IPV4", IsIpv4Compat "IS_IPV4_COMPAT", IsIpv4Mapped "IS_IPV4_MAPPED",
    IsIpv6 "IS_IPV6", IsUsedLock "IS_USED_LOCK", IsUuid "IS_UUID", IsVisibleDdObject "IS_VISIBLE_DD_OBJECT",
    JsonArray "JSON_ARRAY", JsonArrayagg "JSON_ARRAYAGG", JsonArrayAppend "JSON_ARRAY_APPEND",
    JsonArrayInsert "JSON_ARRAY_INSERT", JsonContains "JSON_CONTAINS", JsonContainsPath "JSON_CONTAINS_PATH",
    JsonDepth "JSON_DEPTH", JsonDualityObject "JSON_DUALITY_OBJECT", JsonExtract "JSON_EXTRACT",
    JsonInsert "JSON_INSERT", JsonKeys "JSON_KEYS", JsonLength "JSON_LENGTH", JsonMerge "JSON_MERGE",
    JsonMergePatch "JSON_MERGE_PATCH", JsonMergePreserve "JSON_MERGE_PRESERVE", JsonObject "JSON_OBJECT",
    JsonObjectagg "JSON_OBJECTAGG", JsonOverlaps "JSON_OVERLAPS", JsonPretty "JSON_PRETTY", JsonQuote "JSON_QUOTE",
    JsonRemove "JSON_REMOVE", JsonReplace "JSON_REPLACE", JsonSchemaValid "JSON_SCHEMA_VALID",
    JsonSchemaValidationReport "JSON_SCHEMA_VALIDATION_REPORT", JsonSearch "JSON_SEARCH", JsonSet "JSON_SET",
    JsonStorageFree "JSON_STORAGE_FREE", JsonStorageSize "JSON_STORAGE_SIZE", JsonType "JSON_TYPE",
    JsonUnquote "JSON_UNQUOTE", JsonValid "JSON_VALID", JsonValue "JSON_VALUE", Lag "LAG", LastDay "LAST_DAY",
    LastInsertId "LAST_INSERT_ID", LastValue "LAST_VALUE", Lcase "LCASE", Lead "LEAD", Least "LEAST", Left "LEFT",
    Length "LENGTH", Linestring "LINESTRING", Ln "LN", LoadFile "LOAD_FILE", Localtime "LOCALTIME",
    Localtimestamp "LOCALTIMESTAMP", Locate "LOCATE", Log "LOG", Log10 "LOG10", Log2 "LOG2", Lower "LOWER",
    Lpad "LPAD", Ltrim "LTRIM", Makedate "MAKEDATE", Maketime "MAKETIME", MakeSet "MAKE_SET",
    MasterPosWait "MASTER_POS_WAIT", Max "MAX", Mbrcontains "MBRCONTAINS", Mbrcoveredby "MBRCOVEREDBY",
    Mbrcovers "MBRCOVERS", Mbrdisjoint "MBRDISJOINT", Mbrequals "MBREQUALS", Mbrintersects "MBRINTERSECTS",
    Mbroverlaps "MBROVERLAPS", Mbrtouches "MBRTOUCHES", Mbrwithin "MBRWITHIN", Microsecond "MICROSECOND", Mid "MID",
    Min "MIN", Minute "MINUTE", Mod "MOD", Month "MONTH", Monthname "MONTHNAME", Multilinestring "MULTILINESTRING",
    Multipoint "MULTIPOINT", Multipolygon "MULTIPOLYGON", NameConst "NAME_CONST", Now "NOW", NthValue "NTH_VALUE",
    Ntile "NTILE", Nullif "NULLIF", Oct "OCT", OctetLength "OCTET_LENGTH", Ord "ORD", Password "PASSWORD",
    PercentRank "PERCENT_RANK", PeriodAdd "PERIOD_ADD", PeriodDiff "PERIOD_DIFF", Pi "PI", Point "POINT",
    Polygon "POLYGON", Position "POSITION", Pow "POW", Power "POWER", PsCurrentThreadId "PS_CURRENT_THREAD_ID",
    PsThreadId "PS_THREAD_ID", Quarter "QUARTER", Quote "QUOTE", Radians "RADIANS", Rand "RAND",
    RandomBytes "RANDOM_BYTES", Rank "RANK", RegexpInstr "REGEXP_INSTR", RegexpLike "REGEXP_LIKE",
    RegexpReplace "REGEXP_REPLACE", RegexpSubstr "REGEXP_SUBSTR", ReleaseAllLocks "RELEASE_ALL_LOCKS",
    ReleaseLock "RELEASE_LOCK", RemoveDdPropertyKey "REMOVE_DD_PROPERTY_KEY", Repeat "REPEAT", Replace "REPLACE",
    Reverse "REVERSE", Right "RIGHT", RolesGraphml "ROLES_GRAPHML", Round "ROUND", RowCount "ROW_COUNT",
    RowNumber "ROW_NUMBER", Rpad "RPAD", Rtrim "RTRIM", Schema "SCHEMA", Second "SECOND", SecToTime "SEC_TO_TIME",
    SessionUser "SESSION_USER", Sha2 "SHA2", Sign "SIGN", Sin "SIN", Sleep "SLEEP", Soundex "SOUNDEX",
    SourcePosWait "SOURCE_POS_WAIT", Space "SPACE", Sqrt "SQRT", StatementDigest "STATEMENT_DIGEST",
    StatementDigestText "STATEMENT_DIGEST_TEXT", Std "STD", Stddev "STDDEV", StddevPop "STDDEV_POP",
    StddevSamp "STDDEV_SAMP", Strcmp "STRCMP", StringToVector "STRING_TO_VECTOR", StrToDate "STR_TO_DATE",
    StArea "ST_AREA", StAsbinary "ST_ASBINARY", StAsgeojson "ST_ASGEOJSON", StAstext "ST_ASTEXT", StAswkb "ST_ASWKB",
    StAswkt "ST_ASWKT", StBuffer "ST_BUFFER", StBufferStrategy "ST_BUFFER_STRATEGY", StCentroid "ST_CENTROID",
    StCollect "ST_COLLECT", StContains "ST_CONTAINS", StConvexhull "ST_CONVEXHULL", StCrosses "ST_CROSSES",
    StDifference "ST_DIFFERENCE", StDimension "ST_DIMENSION", StDisjoint "ST_DISJOINT", StDistance "ST_DISTANCE",
    StDistanceSphere "ST_DISTANCE_SPHERE", StEndpoint "ST_ENDPOINT", StEnvelope "ST_ENVELOPE", StEquals "ST_EQUALS",
    StExteriorring "ST_EXTERIORRING", StFrechetdistance "ST_FRECHETDISTANCE", StGeohash "ST_GEOHASH",
    StGeomcollfromtext "ST_GEOMCOLLFROMTEXT", StGeomcollfromtxt "ST_GEOMCOLLFROMTXT",
    StGeomcollfromwkb "ST_GEOMCOLLFROMWKB", StGeometrycollectionfromtext "ST_GEOMETRYCOLLECTIONFROMTEXT",
    StGeometrycollectionfromwkb "ST_GEOMETRYCOLLECTIONFROMWKB", StGeometryfromtext "ST_GEOMETRYFROMTEXT",
    StGeometryfromwkb "ST_GEOMETRYFROMWKB", StGeometryn "ST_GEOMETRYN", StGeometrytype "ST_GEOMETRYTYPE",
    StGeomfromgeojson "ST_GEOMFROMGEOJSON", StGeomfromtext "ST_GEOMFROMTEXT", StGeomfromwkb "ST_GEOMFROMWKB",
    StHausdorffdistance "ST_HAUSDORFFDISTANCE", StInteriorringn "ST_INTERIORRINGN", StIntersection "ST_INTERSECTION",
    StIntersects "ST_INTERSECTS", StIsclosed "ST_ISCLOSED", StIsempty "ST_ISEMPTY", StIssimple "ST_ISSIMPLE",
    StIsvalid "ST_ISVALID", StLatfromgeohash "ST_LATFROMGEOHASH", StLatitude "ST_LATITUDE", StLength "ST_LENGTH",
    StLinefromtext "ST_LINEFROMTEXT", StLinefromwkb "ST_LINEFROMWKB",
    StLineinterpolatepoint "ST_LINEINTERPOLATEPOINT", StLineinterpolatepoints "ST_LINEINTERPOLATEPOINTS",
    StLinestringfromtext "ST_LINESTRINGFROMTEXT", StLinestringfromwkb "ST_LINESTRINGFROMWKB",
    StLongfromgeohash "ST_LONGFROMGEOHASH", StLongitude "ST_LONGITUDE", StMakeenvelope "ST_MAKEENVELOPE",
    StMlinefromtext "ST_MLINEFROMTEXT", StMlinefromwkb "ST_MLINEFROMWKB", StMpointfromtext "ST_MPOINTFROMTEXT",
    StMpointfromwkb "ST_MPOINTFROMWKB", StMpolyfromtext "ST_MPOLYFROMTEXT", StMpolyfromwkb "ST_MPOLYFROMWKB",
    StMultilinestringfromtext "ST_MULTILINESTRINGFROMTEXT", StMultilinestringfromwkb "ST_MULTILINESTRINGFROMWKB",
    StMultipointfromtext "ST_MULTIPOINTFROMTEXT", StMultipointfromwkb "ST_MULTIPOINTFROMWKB",
    StMultipolygonfromtext "ST_MULTIPOLYGONFROMTEXT", StMultipolygonfromwkb "ST_MULTIPOLYGONFROMWKB",
    StNumgeometries "ST_NUMGEOMETRIES", StNuminteriorring "ST_NUMINTERIORRING",
    StNuminteriorrings "ST_NUMINTERIORRINGS", StNumpoints "ST_NUMPOINTS", StOverlaps "ST_OVERLAPS",
    StPointatdistance "ST_POINTATDISTANCE", StPointfromgeohash "ST_POINTFROMGEOHASH",
    StPointfromtext "ST_POINTFROMTEXT", StPointfromwkb "ST_POINTFROMWKB", StPointn "ST_POINTN",
    StPolyfromtext "ST_POLYFROMTEXT", StPolyfromwkb "ST_POLYFROMWKB", StPolygonfromtext "ST_POLYGONFROMTEXT",
    StPolygonfromwkb "ST_POLYGONFROMWKB", StSimplify "ST_SIMPLIFY", StSrid "ST_SRID", StStartpoint "ST_STARTPOINT",
    StSwapxy "ST_SWAPXY", StSymdifference "ST_SYMDIFFERENCE", StTouches "ST_TOUCHES", StTransform "ST_TRANSFORM",
    StUnion "ST_UNION", StValidate "ST_VALIDATE", StWithin "ST_WITHIN", StX "ST_X", StY "ST_Y", Subdate "SUBDATE",
    Substr "SUBSTR", Substring "SUBSTRING", SubstringIndex "SUBSTRING_INDEX", Subtime "SUBTIME", Sum "SUM",
    Sysdate "SYSDATE", SystemUser "SYSTEM_USER", Tablesample "TABLESAMPLE", Tan "TAN", Time "TIME",
    Timediff "TIMEDIFF", Timestamp "TIMESTAMP", Timestampadd "TIMESTAMPADD", Timestampdiff "TIMESTAMPDIFF",
    TimeFormat "TIME_FORMAT", TimeToSec "TIME_TO_SEC", ToBase64 "TO_BASE64", ToDays "TO_DAYS", ToSeconds "TO_SECONDS",
    ToVector "TO_VECTOR", Trim "TRIM", Truncate "TRUNCATE", Ucase "UCASE", Uncompress "UNCOMPRESS",
    UncompressedLength "UNCOMPRESSED_LENGTH", Unhex "UNHEX", UnixTimestamp "UNIX_TIMESTAMP", Updatexml "UPDATEXML",
    Upper "UPPER", User "USER", UtcDate "UTC_DATE", UtcTime "UTC_TIME", UtcTimestamp "UTC_TIMESTAMP", Uuid "UUID",
    UuidShort "UUID_SHORT", UuidToBin "UUID_TO_BIN", ValidatePasswordStrength "VALIDATE_PASSWORD_STRENGTH",
    Variance "VARIANCE", VarPop "VAR_POP", VarSamp "VAR_SAMP", VectorDim "VECTOR_DIM",
    VectorToString "VECTOR_TO_STRING", Version "VERSION", WaitForExecutedGtidSet "WAIT_FOR_EXECUTED_GTID_SET",
    Week "WEEK", Weekday "WEEKDAY", Weekofyear "WEEKOFYEAR", WeightString "WEIGHT_STRING", Year "YEAR",
    Yearweek "YEARWEEK",
}

static WORDS: LazyLock<Words> = LazyLock::new(|| Words::new(TEXTS));

impl Function {
    /// The function of this name, in any case of its letters.
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Function> {
        WORDS.find(name).and_then(|place| ALL.get(place)).copied()
    }

    #[must_use]
    pub fn text(self) -> &'static str {
        TEXTS.get(self as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_in_any_case() {
        for (function, text) in ALL.iter().zip(TEXTS) {
            assert_eq!(Function::of(text.as_bytes()), Some(*function));
            assert_eq!(Function::of(text.to_lowercase().as_bytes()), Some(*function));
            assert_eq!(function.text(), *text);
        }
        assert_eq!(Function::of(b"no_function"), None);
    }
}
