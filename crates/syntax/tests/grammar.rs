//! Statements drawn from a grammar by a seed, and mutations of statements.
//!
//! Drawn statements parse often, mutated ones rarely. Only a server's verdict makes a test of them.

use testkit::Random;

/// A SELECT, TABLE, VALUES or WITH statement, token by token: no blank stands within one.
pub(crate) fn statement(random: &mut Random) -> Vec<String> {
    let mut draw = Draw { random, tokens: Vec::new(), budget: 0 };
    draw.budget = draw.random.below(60usize) + 5;
    draw.query(3);
    draw.tail();
    draw.tokens
}

/// The tokens with one to three of them left out, doubled, exchanged, replaced or with another in between.
pub(crate) fn mutated(random: &mut Random, tokens: &[String]) -> Vec<String> {
    let mut tokens = tokens.to_vec();
    for _ in 0..=random.below(3u32) {
        if tokens.is_empty() {
            break;
        }
        let at = random.below(tokens.len());
        match random.below(6u32) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at].clone()),
            2 => {
                let other = random.below(tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens[at] = random.pick(WORDS).to_owned(),
            4 => tokens.insert(at, random.pick(WORDS).to_owned()),
            _ => {
                let other = random.below(tokens.len());
                tokens[at] = tokens[other].clone();
            }
        }
    }
    tokens
}

/// Tokens inserted at random places.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "!",
    "(",
    ")",
    ",",
    ".",
    "*",
    "+",
    "-",
    "=",
    "<=>",
    "IS",
    "NULL",
    "TRUE",
    "LIKE",
    "ESCAPE",
    "BETWEEN",
    "IN",
    "REGEXP",
    "SOUNDS",
    "MEMBER",
    "OF",
    "COLLATE",
    "BINARY",
    "INTERVAL",
    "DAY",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "UNION",
    "ALL",
    "INTERSECT",
    "EXCEPT",
    "ORDER",
    "BY",
    "GROUP",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "FOR",
    "UPDATE",
    "SHARE",
    "LOCK",
    "INTO",
    "@a",
    "@@x",
    ":=",
    "->",
    "->>",
    "?",
    "1",
    "'a'",
    "N'a'",
    "_latin1",
    "0x41",
    "t",
    "a",
    "`b`",
    "JOIN",
    "LEFT",
    "NATURAL",
    "CROSS",
    "ON",
    "USING",
    "AS",
    "WITH",
    "RECURSIVE",
    "ROLLUP",
    "WINDOW",
    "OVER",
    "PARTITION",
    "ROWS",
    "DISTINCT",
    "EXISTS",
    "ANY",
    "SOME",
    "ROW",
    "VALUES",
    "TABLE",
    "DEFAULT",
    "LATERAL",
    "f(",
    "COUNT(",
    "MAX(",
    "TRIM(",
    "CAST(",
    "SUBSTRING(",
    "ROW_NUMBER(",
    "DATE",
    "QUALIFY",
    "DUAL",
    "MATCH",
    "AGAINST",
    "CONVERT(",
    "CHAR(",
    "SEPARATOR",
    "UNKNOWN",
    "DIV",
    "MOD",
    "||",
    "&&",
    "<<",
    "~",
    "^",
    "{",
    "}",
    "NOWAIT",
    "SKIP",
    "LOCKED",
    "USE",
    "INDEX",
    "FORCE",
    "JSON_TABLE(",
    "COLUMNS",
    "PATH",
    "STRAIGHT_JOIN",
    "ASC",
    "DESC",
];

struct Draw<'r> {
    random: &'r mut Random,
    tokens: Vec<String>,
    /// Expressions that may still be drawn.
    budget: usize,
}

const NAMES: &[&str] =
    &["a", "b", "c", "t", "u", "v", "`x y`", "date", "status", "end", "offset", "rows_", "1a", "value"];

impl Draw<'_> {
    fn add(&mut self, words: &str) {
        self.tokens.extend(words.split(' ').map(str::to_owned));
    }

    fn one(&mut self, choices: &[&str]) {
        let chosen = self.random.pick(choices);
        self.add(chosen);
    }

    fn half(&mut self) -> bool {
        self.random.one_in(2)
    }

    fn name(&mut self) {
        let name = self.random.pick(NAMES);
        self.tokens.push(name.to_owned());
    }

    fn list(&mut self, most: u32, mut one: impl FnMut(&mut Self)) {
        one(self);
        for _ in 0..self.random.below(most) {
            self.add(",");
            one(self);
        }
    }

    fn tail(&mut self) {
        if self.random.one_in(8) {
            self.one(&["INTO @a", "INTO @a , @b", "INTO OUTFILE 'x'", "INTO DUMPFILE 'x'"]);
            if self.random.one_in(3) {
                self.add("FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY 'x' LINES STARTING BY 'y'");
            }
        }
        if self.random.one_in(10) {
            self.locking();
        }
    }

    fn query(&mut self, depth: u32) {
        if self.random.one_in(8) && depth > 0 {
            self.one(&["WITH", "WITH RECURSIVE"]);
            self.list(2, |draw| {
                draw.name();
                if draw.random.one_in(3) {
                    draw.add("( a , b )");
                }
                draw.add("AS (");
                draw.query(depth - 1);
                draw.add(")");
            });
        }
        self.operand(depth);
        while self.random.one_in(6) {
            self.one(&["UNION", "UNION ALL", "UNION DISTINCT", "EXCEPT", "INTERSECT", "INTERSECT ALL"]);
            self.operand(depth);
        }
        if self.random.one_in(4) {
            self.order();
        }
        if self.random.one_in(5) {
            self.one(&["LIMIT 1", "LIMIT 1 , 2", "LIMIT ? OFFSET ?", "LIMIT 3 OFFSET 4", "LIMIT a"]);
        }
        if self.random.one_in(12) {
            self.locking();
        }
    }

    fn locking(&mut self) {
        self.one(&["FOR UPDATE", "FOR SHARE", "LOCK IN SHARE MODE", "FOR UPDATE OF t", "FOR SHARE OF t , d.u"]);
        if self.random.one_in(3) {
            self.one(&["NOWAIT", "SKIP LOCKED", "FOR SHARE", "FOR UPDATE NOWAIT"]);
        }
    }

    fn order(&mut self) {
        self.add("ORDER BY");
        self.list(2, |draw| {
            draw.expr(2);
            if draw.half() {
                draw.one(&["ASC", "DESC"]);
            }
        });
    }

    fn operand(&mut self, depth: u32) {
        match self.random.below(14u32) {
            0 => {
                self.add("TABLE");
                self.name();
            }
            1 => {
                self.add("VALUES");
                self.list(2, |draw| {
                    draw.add("ROW (");
                    draw.list(3, |draw| draw.expr(1));
                    draw.add(")");
                });
            }
            2 | 3 if depth > 0 => {
                self.add("(");
                self.query(depth - 1);
                self.add(")");
            }
            _ => self.select(depth),
        }
    }

    fn select(&mut self, depth: u32) {
        self.add("SELECT");
        if self.random.one_in(6) {
            self.one(&["DISTINCT", "ALL", "SQL_CALC_FOUND_ROWS", "STRAIGHT_JOIN", "SQL_NO_CACHE HIGH_PRIORITY"]);
        }
        if self.random.one_in(8) {
            self.add("*");
        } else {
            self.list(3, |draw| {
                if draw.random.one_in(10) {
                    draw.name();
                    draw.add(". *");
                    return;
                }
                draw.expr(depth + 1);
                if draw.random.one_in(3) {
                    draw.one(&["AS", "", "AS", "AS 'x' , 1 AS"]);
                    draw.tokens.retain(|token| !token.is_empty());
                    draw.name();
                }
            });
        }
        if self.random.one_in(25) {
            self.add("INTO @a");
        }
        if !self.random.one_in(6) {
            self.add("FROM");
            if self.random.one_in(15) {
                self.add("DUAL");
            } else {
                self.list(2, |draw| draw.table(depth));
            }
        }
        self.clauses(depth);
    }

    fn clauses(&mut self, depth: u32) {
        if self.half() {
            self.add("WHERE");
            self.expr(depth + 1);
        }
        if self.random.one_in(5) {
            self.add("GROUP BY");
            match self.random.below(8u32) {
                0 => self.add("ROLLUP ( a , b )"),
                1 => self.add("CUBE ( ( a , b ) , c )"),
                2 => self.add("GROUPING SETS ( ( a ) , ( ) , ( b , c ) )"),
                _ => {
                    self.list(2, |draw| draw.expr(1));
                    if self.random.one_in(4) {
                        self.add("WITH ROLLUP");
                    }
                }
            }
        }
        if self.random.one_in(8) {
            self.add("HAVING");
            self.expr(2);
        }
        if self.random.one_in(12) {
            self.add("WINDOW");
            self.list(2, |draw| {
                draw.name();
                draw.add("AS");
                draw.window_spec();
            });
        }
        if self.random.one_in(15) {
            self.add("QUALIFY");
            self.expr(1);
        }
    }

    fn table(&mut self, depth: u32) {
        self.factor(depth);
        for _ in 0..self.random.below(3u32) {
            match self.random.below(8u32) {
                0 => {
                    self.one(&["NATURAL JOIN", "NATURAL LEFT JOIN", "NATURAL RIGHT OUTER JOIN", "NATURAL INNER JOIN"]);
                    self.factor(depth);
                }
                1 => {
                    self.one(&["JOIN", "CROSS JOIN", "STRAIGHT_JOIN", "INNER JOIN"]);
                    self.factor(depth);
                }
                2 => {
                    self.one(&["JOIN", "LEFT JOIN"]);
                    self.factor(depth);
                    self.one(&["JOIN", "RIGHT JOIN"]);
                    self.factor(depth);
                    self.condition();
                    self.condition();
                }
                _ => {
                    self.one(&["JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "INNER JOIN", "STRAIGHT_JOIN"]);
                    self.factor(depth);
                    self.condition();
                }
            }
        }
    }

    fn condition(&mut self) {
        if self.random.one_in(4) {
            self.add("USING ( a , b )");
        } else {
            self.add("ON");
            self.expr(2);
        }
    }

    fn factor(&mut self, depth: u32) {
        match self.random.below(12u32) {
            0 | 1 if depth > 0 => {
                if self.random.one_in(4) {
                    self.add("LATERAL");
                }
                self.add("(");
                self.query(depth - 1);
                self.add(")");
                self.one(&["AS x", "x", "x ( a , b )"]);
            }
            2 if depth > 0 => {
                self.add("(");
                self.list(2, |draw| draw.table(depth - 1));
                self.add(")");
            }
            3 if depth > 0 && self.random.one_in(3) => {
                self.add("{ OJ");
                self.table(depth - 1);
                self.add("}");
            }
            4 if self.random.one_in(3) => self.json_table(),
            _ => {
                if self.random.one_in(5) {
                    self.add("d .");
                }
                self.name();
                if self.random.one_in(15) {
                    self.add("PARTITION ( p0 , p1 )");
                }
                if self.random.one_in(3) {
                    self.one(&["AS x", "y", "AS `z`"]);
                }
                if self.random.one_in(10) {
                    self.one(&[
                        "USE INDEX ( )",
                        "FORCE KEY FOR JOIN ( PRIMARY )",
                        "IGNORE INDEX FOR ORDER BY ( a , b )",
                    ]);
                }
                if self.random.one_in(20) {
                    self.one(&["TABLESAMPLE BERNOULLI ( 10 )", "TABLESAMPLE SYSTEM ( ? )"]);
                }
            }
        }
    }

    fn json_table(&mut self) {
        self.add("JSON_TABLE(");
        self.expr(1);
        self.add(", '$' COLUMNS ( a FOR ORDINALITY , b INT");
        self.one(&["", "UNSIGNED", "EXISTS"]);
        self.tokens.retain(|token| !token.is_empty());
        self.add("PATH '$.b'");
        if self.half() {
            self.one(&["NULL ON EMPTY", "ERROR ON ERROR", "DEFAULT '1' ON EMPTY NULL ON ERROR"]);
        }
        if self.half() {
            self.add(", NESTED PATH '$.c' COLUMNS ( c VARCHAR ( 10 ) CHARACTER SET latin1 PATH '$' )");
        }
        self.add(") )");
        self.one(&["AS j", "j"]);
    }

    fn window_spec(&mut self) {
        self.add("(");
        if self.random.one_in(5) {
            self.add("w");
        }
        if self.half() {
            self.add("PARTITION BY");
            self.list(2, |draw| draw.expr(1));
        }
        if self.half() {
            self.order();
        }
        if self.random.one_in(3) {
            self.one(&["ROWS", "RANGE", "GROUPS"]);
            self.one(&[
                "UNBOUNDED PRECEDING",
                "CURRENT ROW",
                "1 PRECEDING",
                "BETWEEN 1 PRECEDING AND ? FOLLOWING",
                "BETWEEN INTERVAL 1 DAY PRECEDING AND UNBOUNDED FOLLOWING",
                "BETWEEN CURRENT ROW AND 2.5 FOLLOWING EXCLUDE TIES",
                "1 FOLLOWING",
            ]);
        }
        self.add(")");
    }

    fn expr(&mut self, depth: u32) {
        if self.budget == 0 || depth == 0 {
            return self.leaf();
        }
        self.budget -= 1;
        match self.random.below(24u32) {
            0..=5 => self.leaf(),
            6..=9 => {
                self.inner(depth - 1);
                self.one(&[
                    "OR", "XOR", "AND", "&&", "||", "=", "<=>", "<>", "!=", "<", ">=", "|", "&", "<<", ">>", "+", "-",
                    "*", "/", "DIV", "MOD", "%", "^",
                ]);
                self.inner(depth - 1);
            }
            10 => {
                self.one(&["NOT", "!", "-", "+", "~", "BINARY"]);
                self.inner(depth - 1);
            }
            11 | 12 => {
                self.add("(");
                self.expr(depth - 1);
                self.add(")");
            }
            13 | 14 => self.predicate(depth - 1),
            15 | 16 => self.function(depth - 1),
            17 => self.worded(depth - 1),
            18 => self.windowed(depth - 1),
            19 => self.subquery(depth - 1),
            20 => self.case(depth - 1),
            21 => {
                self.expr(depth - 1);
                self.one(&["+", "-"]);
                self.add("INTERVAL");
                self.expr(depth - 1);
                self.one(&["DAY", "DAY_HOUR", "MICROSECOND", "SQL_TSI_MONTH"]);
            }
            22 => {
                self.one(&["", "ROW"]);
                self.tokens.retain(|token| !token.is_empty());
                self.add("(");
                self.expr(depth - 1);
                self.add(",");
                self.expr(depth - 1);
                self.add(")");
            }
            _ => self.rare(depth - 1),
        }
    }

    fn rare(&mut self, depth: u32) {
        match self.random.below(6u32) {
            0 => {
                self.add("@a :=");
                self.expr(depth);
            }
            1 => {
                self.add("INTERVAL");
                self.expr(depth);
                self.add("HOUR +");
                self.expr(depth);
            }
            2 => {
                self.expr(depth);
                self.one(&["COLLATE utf8mb4_bin", "COLLATE 'latin1_bin'"]);
            }
            3 => {
                self.add("{ fn");
                self.expr(depth);
                self.add("}");
            }
            4 => {
                self.add("MATCH ( a , t . b ) AGAINST (");
                self.expr(depth);
                self.one(&[")", "IN BOOLEAN MODE )", "WITH QUERY EXPANSION )"]);
            }
            _ => {
                self.add("a");
                self.one(&["-> '$.x'", "->> '$'"]);
            }
        }
    }

    fn predicate(&mut self, depth: u32) {
        self.inner(depth);
        if self.random.one_in(3) {
            self.add("NOT");
        }
        match self.random.below(9u32) {
            0 => {
                self.add("IN (");
                self.list(3, |draw| draw.expr(depth));
                self.add(")");
            }
            1 => {
                self.add("IN");
                self.subquery(depth);
            }
            2 => {
                self.add("BETWEEN");
                self.inner(depth);
                self.add("AND");
                self.inner(depth);
            }
            3 => {
                self.add("LIKE");
                self.inner(depth);
                if self.random.one_in(3) {
                    self.add("ESCAPE");
                    self.inner(depth);
                }
            }
            4 => {
                self.one(&["REGEXP", "RLIKE"]);
                self.inner(depth);
            }
            5 => {
                self.add("SOUNDS LIKE");
                self.inner(depth);
            }
            6 => {
                self.add("MEMBER OF (");
                self.inner(depth);
                self.add(")");
            }
            7 => self.one(&["IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE", "IS UNKNOWN"]),
            _ => {
                self.one(&["=", ">", "<>", "<=>"]);
                self.one(&["ALL", "ANY", "SOME"]);
                self.subquery(depth);
            }
        }
    }

    fn subquery(&mut self, depth: u32) {
        if self.random.one_in(4) {
            self.add("EXISTS");
        }
        self.add("(");
        self.query(depth.min(1));
        self.add(")");
    }

    fn case(&mut self, depth: u32) {
        self.add("CASE");
        if self.half() {
            self.expr(depth);
        }
        for _ in 0..=self.random.below(2u32) {
            self.add("WHEN");
            self.expr(depth);
            self.add("THEN");
            self.expr(depth);
        }
        if self.half() {
            self.add("ELSE");
            self.expr(depth);
        }
        self.add("END");
    }

    /// What may be an operand of any operator, mostly.
    fn inner(&mut self, depth: u32) {
        match self.random.below(5u32) {
            0 => self.expr(depth),
            1 | 2 => {
                self.add("(");
                self.expr(depth);
                self.add(")");
            }
            _ => self.leaf(),
        }
    }

    /// With as many arguments as it takes, mostly.
    fn function(&mut self, depth: u32) {
        let functions = [
            ("f(", 2),
            ("d.f(", 1),
            ("ABS(", 1),
            ("CONCAT(", 3),
            ("IF(", 3),
            ("COALESCE(", 2),
            ("LEFT(", 2),
            ("MOD(", 2),
            ("NOW(", 0),
            ("DATE(", 1),
            ("COUNT(", 1),
            ("SUM(", 1),
            ("MAX(", 1),
            ("GROUP_CONCAT(", 2),
            ("JSON_ARRAYAGG(", 1),
            ("BIT_AND(", 1),
            ("TIMESTAMP(", 2),
            ("REPLACE(", 3),
            ("INTERVAL(", 2),
            ("CHAR(", 1),
            ("DATABASE(", 0),
            ("ROUND (", 1),
            ("COUNT (", 1),
            ("WEIGHT_STRING(", 1),
            ("JSON_OBJECTAGG(", 2),
            ("LAST_INSERT_ID(", 1),
            ("USER(", 0),
        ];
        let (name, arguments) = self.random.pick(&functions);
        self.add(name);
        if self.random.one_in(12) {
            self.one(&["DISTINCT", "ALL", "*"]);
        }
        let count = if self.random.one_in(8) { self.random.below(4u32) } else { arguments };
        for place in 0..count {
            if place > 0 {
                self.add(",");
            }
            self.expr(depth);
        }
        self.add(")");
    }

    fn worded(&mut self, depth: u32) {
        match self.random.below(12u32) {
            0 => {
                self.add("CAST(");
                self.expr(depth);
                self.add("AS");
                self.one(&[
                    "CHAR ( 3 ) CHARACTER SET latin1",
                    "SIGNED INTEGER",
                    "DECIMAL ( 5 , 2 )",
                    "JSON",
                    "DATETIME ( 3 )",
                ]);
                self.add(")");
            }
            1 => {
                self.add("CONVERT(");
                self.expr(depth);
                self.one(&["USING utf8mb4 )", ", UNSIGNED )", ", TIME )"]);
            }
            2 => {
                self.add("TRIM(");
                self.one(&["BOTH", "LEADING", "TRAILING"]);
                self.expr(depth);
                self.add("FROM");
                self.expr(depth);
                self.add(")");
            }
            3 => {
                self.one(&["SUBSTRING(", "SUBSTR(", "MID("]);
                self.expr(depth);
                self.one(&["FROM", ","]);
                self.expr(depth);
                if self.half() {
                    self.one(&["FOR", ","]);
                    self.expr(depth);
                }
                self.add(")");
            }
            4 => {
                self.add("POSITION(");
                self.expr(depth);
                self.add("IN");
                self.expr(depth);
                self.add(")");
            }
            5 => {
                self.add("EXTRACT(");
                self.one(&["YEAR", "DAY_SECOND"]);
                self.add("FROM");
                self.expr(depth);
                self.add(")");
            }
            6 => {
                self.one(&["DATE_ADD(", "ADDDATE(", "DATE_SUB("]);
                self.expr(depth);
                self.add(", INTERVAL");
                self.expr(depth);
                self.add("DAY )");
            }
            7 => {
                self.one(&["TIMESTAMPADD( DAY ,", "TIMESTAMPDIFF( SQL_TSI_YEAR ,", "GET_FORMAT( DATE ,"]);
                self.expr(depth);
                self.add(",");
                self.expr(depth);
                self.add(")");
            }
            8 => {
                self.add("JSON_VALUE(");
                self.expr(depth);
                self.one(&[", '$' )", ", '$' RETURNING SIGNED )", ", '$' DEFAULT 1 ON EMPTY ERROR ON ERROR )"]);
            }
            9 => {
                self.add("GROUP_CONCAT( DISTINCT");
                self.expr(depth);
                self.order();
                self.add("SEPARATOR ',' )");
            }
            10 => {
                self.add("CHAR(");
                self.expr(depth);
                self.add("USING latin1 )");
            }
            _ => {
                self.add("WEIGHT_STRING(");
                self.expr(depth);
                self.add("AS CHAR ( 3 ) )");
            }
        }
    }

    fn windowed(&mut self, depth: u32) {
        match self.random.below(4u32) {
            0 => self.one(&["ROW_NUMBER( )", "RANK( )", "NTILE( 3 )", "CUME_DIST( )"]),
            1 => {
                self.one(&["LEAD(", "LAG(", "FIRST_VALUE(", "NTH_VALUE("]);
                self.expr(depth);
                if self.half() {
                    self.add(", 1");
                }
                self.add(")");
                if self.random.one_in(4) {
                    self.one(&["RESPECT NULLS", "FROM FIRST", "IGNORE NULLS"]);
                }
            }
            _ => {
                self.one(&["SUM(", "COUNT(", "MIN(", "STD("]);
                self.expr(depth);
                self.add(")");
            }
        }
        self.add("OVER");
        if self.half() {
            self.add("w");
        } else {
            self.window_spec();
        }
    }

    fn leaf(&mut self) {
        if self.half() {
            if self.random.one_in(4) {
                self.name();
                self.add(".");
            }
            return self.name();
        }
        self.one(&[
            "NULL",
            "TRUE",
            "FALSE",
            "1",
            "2.5",
            "1e3",
            ".5",
            "'a'",
            "'a' 'b'",
            "N'c'",
            "_latin1 'd'",
            "0x41",
            "b'1'",
            "x'41'",
            "_binary 0x42",
            "?",
            "@a",
            "@`b`",
            "@@sql_mode",
            "@@global.x",
            "DATE '2020-01-01'",
            "CURRENT_DATE",
            "NOW( )",
            "CURRENT_USER",
            "UTC_TIME",
            "\"e\"",
            "DEFAULT( a )",
            "VALUES( a )",
            "COUNT( * )",
        ]);
    }
}
