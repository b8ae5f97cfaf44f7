-- Definitions with all that SHOW CREATE TABLE tells. What the replica would show is compared with it as text.

== shown, 1, s0_t1 : replayed
SET NAMES utf8mb4
----
create table s0_t1(id int primary key auto_increment, a varchar(10) collate utf8mb4_0900_ai_ci, b varchar(10) character set utf8mb4, c varchar(10) collate utf8mb4_bin, d varchar(10) character set latin1, e varchar(10) character set latin1 collate latin1_bin, f text charset utf8mb4 collate utf8mb4_general_ci, g enum('a','b') collate utf8mb4_0900_ai_ci, h varchar(5) binary, i varchar(5) ascii, j nchar(3), k char byte) comment 'x' auto_increment=100

== shown, 2, s0_t2 : replayed
SET NAMES utf8mb4
----
create table s0_t2(a varchar(10), b varchar(10) character set utf8mb4, c varchar(10) collate utf8mb4_0900_ai_ci, d varchar(10) charset latin1) charset latin1

== shown, 3, s0_t3 : replayed
SET NAMES utf8mb4
----
create table s0_t3(a varchar(10), b varchar(10) charset utf8mb4, c varchar(3) charset utf8mb4 collate utf8mb4_bin) collate utf8mb4_bin

== shown, 4, s0_t4 : replayed
SET NAMES utf8mb4
----
create table s0_t4(a int not null comment 'c''x\\y\nz', b int column_format fixed storage disk, c int secondary_engine_attribute '{"a":1}', d int invisible, e int not secondary, f timestamp null, g timestamp default current_timestamp on update current_timestamp, h timestamp(3) default current_timestamp(3) on update current_timestamp(3), i datetime on update now(), j timestamp not null default '2000-01-01 00:00:00', k bit(3) default b'101', l varbinary(4) default 'ab', m blob, n text default ('x'), o json default (json_array()), p point srid 4326, q int as (a+1) stored not null, r int generated always as (a+1) virtual comment 'v', s varchar(3) as ('a') invisible, t date default '2000-01-01', u float(5,2) default 1.5, v double default 1e10, w decimal(5,2) default '1.50', x enum('a''b','c\\d') default 'a''b', y set('a','b') default 'a,b', z int unsigned zerofill default 5, aa year default 2000, ab time(2) default '10:11:12.345', ac bool default true, ad int null default null, ae varchar(10) not null default '', af char(3) default 'a\0b', ag int default (1+2), ah varchar(36) default (uuid()), ai datetime default (now()), aj binary(3) default 'a', ak tinyint(1) unsigned, al int(5), am serial)

== shown, 5, s0_t5 : replayed
SET NAMES utf8mb4
----
create table s0_t5(a int, b int, c varchar(100), d text, e point not null srid 0, primary key (a) using btree comment 'pk', unique key u (b) using hash, key k1 (c(10)) comment 'it''s' , key k2 (a desc, b) key_block_size=4, fulltext key f1 (d) with parser ngram, fulltext f2 (c,d), spatial key s1 (e), key k3 ((a+1)), key k4 (b, (a*2) desc, c(5)), key k5 (b) invisible, key k6 (c) using btree invisible comment 'z', key k7 (b) secondary_engine_attribute='{}') row_format=dynamic key_block_size=0

== shown, 6, s0_t6 : replayed
SET NAMES utf8mb4
----
create table s0_t6(a int primary key, check (a>0), constraint named check (a < 100) not enforced, b int check (b <> 1), c int constraint cc check (c > 5))

== shown, 7, s0_t7a : replayed
SET NAMES utf8mb4
----
create table s0_t7a(a int) row_format=compressed key_block_size=8

== shown, 8, s0_t7b : replayed
SET NAMES utf8mb4
----
create table s0_t7b(a int) compression='zlib' encryption='n'

== shown, 9, s0_t7c : replayed
SET NAMES utf8mb4
----
create table s0_t7c(a int) min_rows=1 max_rows=10 avg_row_length=100 pack_keys=1 stats_persistent=1 stats_auto_recalc=0 stats_sample_pages=5 checksum=1 delay_key_write=1

== shown, 10, s0_t7d : replayed
SET NAMES utf8mb4
----
create table s0_t7d(a int) stats_persistent=default stats_auto_recalc=default pack_keys=default autoextend_size=4194304 tablespace=innodb_file_per_table

== shown, 11, s0_t7e : replayed
SET NAMES utf8mb4
----
create table s0_t7e(a int) secondary_engine=rapid secondary_engine_attribute='{"x":2}'

== shown, 12, s0_t7i : replayed
SET NAMES utf8mb4
----
create table s0_t7i(a int) engine=memory max_rows=5; create table s0_t7k(a int not null) engine=archive; create table s0_t7l(a int, key(a)) engine=myisam delay_key_write=1 checksum=1 row_format=fixed

== shown, 13, s0_p : replayed
SET NAMES utf8mb4
----
create table s0_p(id int primary key, x int, unique key (x))

== shown, 14, s0_t8 : replayed
SET NAMES utf8mb4
----
create table s0_t8(a int, b int, foreign key (a) references s0_p(id), constraint fk2 foreign key idx2 (b) references s0_p(x) on delete cascade on update set null, constraint fk3 foreign key (b) references s0_p(x) on delete restrict on update no action, foreign key (a) references s0_p(id) on delete set null)

== shown, 15, s0_t9 : replayed
SET NAMES utf8mb4
----
create table s0_t9(a int references s0_p(id), b int, foreign key(b) references s0_p(x) on update cascade)

== shown, 16, s0_q1 : replayed
SET NAMES utf8mb4
----
create table s0_q1(a int) partition by range(a) (partition p0 values less than (10) comment='c' , partition p1 values less than maxvalue)

== shown, 17, s0_q2 : replayed
SET NAMES utf8mb4
----
create table s0_q2(a int, b date) partition by range(year(b)) subpartition by hash(a) subpartitions 2 (partition p0 values less than (2000), partition p1 values less than (maxvalue))

== shown, 18, s0_q3 : replayed
SET NAMES utf8mb4
----
create table s0_q3(a int, b varchar(10)) partition by range columns(a, b) (partition p0 values less than (1,'a'), partition p1 values less than (maxvalue, maxvalue))

== shown, 19, s0_q4 : replayed
SET NAMES utf8mb4
----
create table s0_q4(a int) partition by list(a) (partition p0 values in (1,2,null), partition p1 values in (3))

== shown, 20, s0_q5 : replayed
SET NAMES utf8mb4
----
create table s0_q5(a varchar(10)) partition by list columns(a) (partition p0 values in ('a','b'), partition p1 values in (null))

== shown, 21, s0_q6 : replayed
SET NAMES utf8mb4
----
create table s0_q6(a int) partition by hash(a+1) partitions 4

== shown, 22, s0_q7 : replayed
SET NAMES utf8mb4
----
create table s0_q7(a int) partition by linear hash(a) (partition x, partition y)

== shown, 23, s0_q8 : replayed
SET NAMES utf8mb4
----
create table s0_q8(a int primary key) partition by key() partitions 3

== shown, 25, s0_q10 : replayed
SET NAMES utf8mb4
----
create table s0_q10(a int) partition by key algorithm=2 (a)

== shown, 26, s0_q12 : replayed
SET NAMES utf8mb4
----
create table s0_q12(a timestamp not null default '2000-01-01 00:00:00') partition by range(unix_timestamp(a)) (partition p0 values less than (unix_timestamp('2020-01-01 00:00:00')), partition p1 values less than maxvalue)

== shown, 27, s0_q13 : replayed
SET NAMES utf8mb4
----
create table s0_q13(d datetime) partition by range columns(d) (partition p0 values less than ('2020-01-01'), partition p1 values less than ('2021-01-01 10:00:00'))

== shown, 28, s0_q14 : replayed
SET NAMES utf8mb4
----
create table s0_q14(`A b` int, c varbinary(10)) partition by list columns(`A b`) (partition `p q` values in (1,2), partition p2 values in (-1))

== shown, 29, s0_q15 : replayed
SET NAMES utf8mb4
----
create table s0_q15(a int, b date) partition by range(to_days(b)) (partition p0 values less than (to_days('2020-01-01')))

== shown, 30, s0_like1 : replayed
SET NAMES utf8mb4
----
create table s0_like1 like s0_t6; create table s0_like2 like s0_t5

== shown, 31, s0_sel : replayed
SET NAMES utf8mb4
----
create table s0_sel as select a+1 as x, 'y' as y, b from s0_t8

== shown, 32, s0_gipk : replayed
SET NAMES utf8mb4
----
set sql_generate_invisible_primary_key=1; create table s0_gipk(a int); set sql_generate_invisible_primary_key=0

== shown, 33, s0_t6 : replayed
SET NAMES utf8mb4
----
alter table s0_t6 rename to t6b

== shown, 34, t6b : replayed
SET NAMES utf8mb4
----
alter table t6b add check (a <> 7), drop check named, alter check cc not enforced, add constraint z1 check (b > 5)

== shown, 35, t6b : replayed
SET NAMES utf8mb4
----
alter table t6b add column n int check (n > 1), drop column c

== shown, 36, s0_mm : replayed
SET NAMES utf8mb4
----
create table s0_mm(a int) engine=myisam; create table s0_mg(a int) engine=merge union=(s0_mm) insert_method=last

== shown, 37, s1_a1 : replayed
SET NAMES utf8mb4
----
set sql_mode=''; create table s1_a1(x enum('a''b','c\\d','e\nf','g"h') default 'c\\d', v varbinary(4) default x'ff00', w binary(2) default x'c3a9', b bit(8) default 5, d datetime(2) default '2000-01-01 10:00:00.5', c char(3) charset latin1 default 'é', u char(3) charset utf16 default 'é', y varchar(3) comment 'é\n' invisible, z timestamp default '2000-01-01 00:00:00', j json, vec vector(3), g geometry not null, p point, t tinytext, q decimal(10,0) default -1, dd date default '0000-00-00'); set sql_mode=default

== shown, 38, s1_a2 : replayed
SET NAMES utf8mb4
----
create table s1_a2(a int, b varchar(3) charset latin1, c varchar(3) collate utf8mb4_bin, d text, e varchar(3) charset utf8mb4); alter table s1_a2 convert to charset utf8mb3

== shown, 39, s1_a2 : replayed
SET NAMES utf8mb4
----
alter table s1_a2 default charset latin1

== shown, 40, s1_a2 : replayed
SET NAMES utf8mb4
----
alter table s1_a2 modify b varchar(4) collate latin1_bin; alter table s1_a2 modify b varchar(4); alter table s1_a2 change c cc varchar(5), rename column e to f

== shown, 41, s1_a3 : replayed
SET NAMES utf8mb4
----
create table s1_a3(a int comment 'c', b int) comment='t''x' row_format=compressed stats_persistent=0 min_rows=5 encryption='N' checksum=1 compression='' secondary_engine=x autoextend_size=4M

== shown, 42, s1_a3 : replayed
SET NAMES utf8mb4
----
alter table s1_a3 row_format=default, stats_persistent=default, min_rows=0, comment='', secondary_engine=null; alter table s1_a3 engine=innodb max_rows=7 key_block_size=4

== shown, 43, s1_a4 : replayed
SET NAMES utf8mb4
----
create table s1_a4(a int) partition by key(a); alter table s1_a4 add partition partitions 2; alter table s1_a4 coalesce partition 1; alter table s1_a4 add partition (partition zz)

== shown, 44, s1_a5 : replayed
SET NAMES utf8mb4
----
create table s1_a5(a int) partition by hash(a) partitions 2; alter table s1_a5 reorganize partition p0,p1 into (partition a, partition b); alter table s1_a5 add partition partitions 1; alter table s1_a5 add partition (partition q comment 'x'); alter table s1_a5 coalesce partition 2

== shown, 45, s1_a6 : replayed
SET NAMES utf8mb4
----
create table s1_a6(`range` int, `Año` int, `order` int, year int) partition by range(`Año`) (partition `maxvalue` values less than (5), partition year values less than (6), partition `1` values less than (7), partition `a-b` values less than (8), partition `é` values less than (9))

== shown, 46, s1_a7 : replayed
SET NAMES utf8mb4
----
create table s1_a7(a int, `x y` int, `group` int, status int) partition by key(a, `x y`, `group`, status) partitions 2

== shown, 47, s1_a8 : replayed
SET NAMES utf8mb4
----
create table s1_a8(a varchar(10), b int, c datetime(3)) partition by list columns(a, b) (partition p values in (('é',1),('x''y\\z',null)), partition q values in ((null,-3)))

== shown, 48, s1_a9 : replayed
SET NAMES utf8mb4
----
create table s1_a9(c datetime(3), d time, b varbinary(4)) partition by range columns(c) (partition p values less than ('2020-1-1 1:2:3.4567'))

== shown, 49, s1_b1 : replayed
SET NAMES utf8mb4
----
create table s1_b1(d time, b varbinary(4)) partition by range columns(d, b) (partition p values less than ('1:2:3', x'ff'), partition q values less than ('2:2', 'a\0'))

== shown, 50, s1_b2 : replayed
SET NAMES utf8mb4
----
create table s1_b2(a bigint unsigned) partition by range(a) (partition p values less than (18446744073709551615))

== shown, 51, s1_b3 : replayed
SET NAMES utf8mb4
----
create table s1_b3(a int, b int) partition by range(a) subpartition by key(a) subpartitions 2 (partition p values less than (1), partition q values less than (2)); alter table s1_b3 add partition (partition r values less than (3))

== shown, 52, s1_b5 : replayed
SET NAMES utf8mb4
----
create table s1_b5(a int not null primary key) partition by key(a) (partition p0, partition p1); create table s1_b6(a int) partition by hash(mod(a,3)) partitions 1

== shown, 53, s1_c1 : replayed
SET NAMES utf8mb4
----
create table s1_c1(a int, B int, check (A > b), constraint `q``r` check (a<5)); rename table s1_c1 to s1_C2; alter table s1_C2 add x int, add check (x>0), add constraint C2_chk_7 check (x<>5), add check (x <> 9); alter table s1_C2 drop column x

== shown, 54, s1_d1 : replayed
SET NAMES utf8mb4
----
create table s1_d1(a int, g int as (A+1), k varchar(5) as (concat('A', `A`)), key((A*2)), c int default (A), unique u(a) comment 'u' using btree visible, index i using hash (a) key_block_size 8) key_block_size=4

== shown, 55, s1_d2 : replayed
SET NAMES utf8mb4
----
create table s1_d2(a int, s varchar(3) charset latin1, g varchar(9) as (concat(s,'x')), h int as (s = 'x'), check (s = 'y')); set names latin1; create table s1_d3(a int, s varchar(3) charset latin1, g varchar(9) as (concat(s,'x')), h int as (s = 'x'), i varchar(5) as ('x'), j varchar(5) as (cast(a as char)), check (s = 'y'))

== shown, 56, s1_f1 : replayed
SET NAMES utf8mb4
----
create table s1_f1(a int, b int, c int, unique key(b), key kk(c)); create table s1_f2(a int, foreign key zz(a) references s1_f1(b), constraint Fz foreign key (a) references s1_f1(b), constraint fa foreign key (a) references s1_f1(b) on delete set default)

== shown, 57, s2_b5 : replayed
SET NAMES utf8mb4
----
create table s2_b5(a int, b int) partition by range(a) subpartition by hash(b) (partition p values less than (1) (subpartition s1 comment 'd', subpartition s2), partition q values less than (2) (subpartition s3 , subpartition s4)); alter table s2_b5 reorganize partition q into (partition q values less than (3) (subpartition s5, subpartition s6))

== shown, 58, s2_b6 : replayed
SET NAMES utf8mb4
----
create table s2_b6(a int, b int) partition by list(a) subpartition by hash(b) subpartitions 2 (partition p values in (1) comment 'x'); alter table s2_b6 add partition (partition q values in (2))

== shown, 59, s2_b7 : replayed
SET NAMES utf8mb4
----
create table s2_b7(a int) partition by range(a) partitions 2 (partition p values less than (1), partition q values less than maxvalue); alter table s2_b7 reorganize partition q into (partition q1 values less than (10) comment 'n', partition q2 values less than maxvalue); alter table s2_b7 comment='x'

== shown, 60, s2_b7 : replayed
SET NAMES utf8mb4
----
alter table s2_b7 remove partitioning; alter table s2_b7 partition by key(a) partitions 2; alter table s2_b7 remove partitioning; alter table s2_b7 engine=myisam

== shown, 61, s2_k1 : replayed
SET NAMES utf8mb4
----
create table s2_k1(a int, b int, key(a) using hash, key(b) using btree, key k3(a,b)) engine=memory; create table s2_k2(a int, key(a) using hash, key k(a) key_block_size=8 comment 'q' using btree invisible, fulltext (b) invisible comment 'z' with parser ngram, b text)

== shown, 62, s2_k3 : replayed
SET NAMES utf8mb4
----
create table s2_k3(a int, unique key k (a) invisible comment 'x')

== shown, 63, s2_k4 : replayed
SET NAMES utf8mb4
----
create table s2_k4(a int default 5 unique comment 'x' invisible, b varchar(10) generated always as (upper('x')) stored not null unique comment 'y', c timestamp(2) not null default now(2) on update now(2) comment 'z', d int auto_increment primary key comment 'w', e int null, f timestamp null on update now(), g year(4), h integer(4) zerofill, i dec, j numeric(5), k real, l double(8,3), m bool not null, n national varchar(5), o long varchar, p long varbinary, q char varying(4))

== shown, 64, s2_k6 : replayed
SET NAMES utf8mb4
----
create table s2_k6(a int storage default column_format default, b int storage memory column_format dynamic not null default 3)

== shown, 65, s2_k7 : replayed
SET NAMES utf8mb4
----
create table s2_k7(a int, b varchar(100), key (b(10) desc, a asc), key ((lower(b)) desc, (a+1)), unique key z((cast(b as char(5)))))

== shown, 66, s2_k8 : replayed
SET NAMES utf8mb4
----
create table s2_k8(a int) comment='é' delay_key_write=0 checksum=0 pack_keys=0 avg_row_length=0 stats_sample_pages=default

== shown, 67, s2_l2 : replayed
SET NAMES utf8mb4
----
create table s2_l2 like s2_b7

== shown, 68, s2_g1 : replayed
SET NAMES utf8mb4
----
create table s2_g1(a int, b int as (a) virtual, c int as (b) stored invisible comment 'x', d int default (a+1) comment 'q', e int as (a) null, f int as (a) unique); alter table s2_g1 add column h int as (a*2) first, modify d bigint default (a), alter e set invisible; alter table s2_g1 alter d set default (5), alter column a set default 3; alter table s2_g1 drop f; alter table s2_g1 modify a bigint

== shown, 69, s2_j1 : replayed
SET NAMES utf8mb4
----
create table s2_j1(id int primary key, unique(id), key(id), key(id))

== shown, 70, s2_m1 : replayed
SET NAMES utf8mb4
----
create table s2_m1(a int not null, b int not null, c int, unique uc(c), key kb(b), unique ub(b), unique uab(a,b), primary key(a), fulltext ft(d), d text, key kd(d(5)), unique ud(d(7)))

== shown, 71, s2_m2 : replayed
SET NAMES utf8mb4
----
create table s2_m2(`a``b` int, `c"d` int comment 'x"y', key `k``1` (`a``b`)) comment "q`r"

== shown, checks by name : replayed
SET NAMES utf8mb4
----
CREATE TABLE {t}_1 (a INT, B INT, CHECK (A > b), CONSTRAINT `q``{t}` CHECK (a < 5)); ALTER TABLE {t}_1 DROP CHECK {t}_1_chk_1, ADD CONSTRAINT Zed_{t} CHECK (b > 1), ADD CONSTRAINT abc_{t} CHECK (b > 2); ALTER TABLE {t}_1 ADD x INT, ADD CHECK (x > 0), ADD CONSTRAINT {t}_1_chk_7 CHECK (x <> 5), ADD CHECK (x <> 9), ALTER CHECK abc_{t} NOT ENFORCED; RENAME TABLE {t}_1 TO {t}_2; ALTER TABLE {t}_2 ADD CHECK (a <> 3); CREATE TABLE {t}_3 LIKE {t}_2; ALTER TABLE {t}_3 DROP COLUMN x; ALTER TABLE {t}_2 DROP CONSTRAINT abc_{t}

== shown, defaults that are no more : replayed
SET NAMES utf8mb4
----
CREATE TABLE {t}_1 (id INT PRIMARY KEY, a INT, b VARCHAR(9) DEFAULT 'x', c DATETIME DEFAULT CURRENT_TIMESTAMP, d INT DEFAULT (1 + 1), e TEXT DEFAULT ('y'), f TIMESTAMP NULL); ALTER TABLE {t}_1 ALTER a DROP DEFAULT, ALTER b DROP DEFAULT; ALTER TABLE {t}_1 ALTER c DROP DEFAULT, ALTER d DROP DEFAULT, ALTER e DROP DEFAULT, ALTER f DROP DEFAULT; CREATE TABLE {t}_2 LIKE {t}_1; ALTER TABLE {t}_2 MODIFY a INT, ALTER b SET DEFAULT 'z', ALTER d SET DEFAULT (a * 2)

== shown, options in their order : replayed
SET NAMES utf8mb4
----
CREATE TABLE {t}_1 (a INT) PACK_KEYS=1 STATS_PERSISTENT=1 STATS_AUTO_RECALC=1 COMMENT 'c' ENCRYPTION='n' MIN_ROWS 5 MAX_ROWS 9 AVG_ROW_LENGTH 3 ROW_FORMAT=COMPACT CHECKSUM=1 DELAY_KEY_WRITE=1 STATS_SAMPLE_PAGES=7 AUTOEXTEND_SIZE=4194304; CREATE TABLE {t}_2 LIKE {t}_1; ALTER TABLE {t}_2 STATS_AUTO_RECALC=0, STATS_SAMPLE_PAGES=DEFAULT, COMMENT=''; CREATE TABLE {t}_3 (a INT) COMPRESSION='lz4' CONNECTION='c' COMMENT='x' ROW_FORMAT=DYNAMIC SECONDARY_ENGINE=rapid SECONDARY_ENGINE_ATTRIBUTE='{"bb":1,"a":[1,2]}'

== shown, indexes of a compressed table : replayed
SET NAMES utf8mb4
----
CREATE TABLE {t}_1 (a INT, KEY k (a) KEY_BLOCK_SIZE=4, KEY l (a), KEY m (a) KEY_BLOCK_SIZE=8) KEY_BLOCK_SIZE=8; CREATE TABLE {t}_2 LIKE {t}_1; ALTER TABLE {t}_2 KEY_BLOCK_SIZE=0; ALTER TABLE {t}_2 KEY_BLOCK_SIZE=4; CREATE TABLE {t}_3 (a INT, KEY k (a) KEY_BLOCK_SIZE=4) ROW_FORMAT=COMPRESSED; CREATE INDEX more USING BTREE ON {t}_3 (a) COMMENT 'm' KEY_BLOCK_SIZE 2 INVISIBLE

== shown, expressions in other modes : replayed
SET NAMES utf8mb4
----
SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,REAL_AS_FLOAT'; CREATE TABLE {t}_1 (id INT PRIMARY KEY, s VARCHAR(9), a VARCHAR(30) AS ("s" || 'x' || upper("s")), b FLOAT AS (cast(id AS REAL)), CHECK ("id" > 0)); SET sql_mode = 'NO_BACKSLASH_ESCAPES'; CREATE TABLE {t}_2 (id INT PRIMARY KEY, s VARCHAR(9), a VARCHAR(30) AS (concat(s, 'x')), b VARCHAR(9) DEFAULT '\') COMMENT 'a\b'

== shown, a table of a SELECT : replayed
SET NAMES utf8mb4
----
CREATE TABLE {t}_1 (a VARCHAR(5) CHARACTER SET latin1, b VARCHAR(5) COLLATE utf8mb4_bin, c VARCHAR(5) CHARACTER SET utf8mb4, d INT DEFAULT 3, e TIMESTAMP NULL) CHARACTER SET utf8mb3; CREATE TABLE {t}_2 AS SELECT a, b, c, concat(a, '') f, d, e, 1.5 g, 'x' h FROM {t}_1; CREATE TABLE {t}_3 (k INT AS (d + 1), KEY (d)) COMMENT 'of a SELECT' SELECT d FROM {t}_1

== shown, a default in brackets is a constant : replayed
SET NAMES utf8mb4
----
CREATE TABLE {t}_1 (id INT PRIMARY KEY, a INT, b VARCHAR(9), c INT, d DATETIME, e DECIMAL(5,2), f VARCHAR(9), g INT, h VARCHAR(5)); ALTER TABLE {t}_1 ALTER a SET DEFAULT (-5), ALTER b SET DEFAULT ('x'), ALTER c SET DEFAULT (NULL), ALTER d SET DEFAULT (now()), ALTER e SET DEFAULT (1.5), ALTER f SET DEFAULT ((('ö'))), ALTER g SET DEFAULT (TRUE), ALTER h SET DEFAULT (x'41')
----
SET binlog_row_image = MINIMAL; INSERT INTO {t}_1 (id) VALUES (1); UPDATE {t}_1 SET id = 2

== timestamps without a default under other settings : replayed
SET sql_mode = ''; CREATE TABLE {t} (c INT, t TIMESTAMP(3) NOT NULL, u TIMESTAMP NOT NULL); INSERT INTO {t} VALUES (1, '2020-01-01 00:00:00', '2020-01-01 00:00:00')
----
SET sql_mode = '', explicit_defaults_for_timestamp = 0; CREATE TABLE {t}_b LIKE {t}; ALTER TABLE {t}_b RENAME COLUMN t TO tt; CREATE TABLE {t}_d LIKE {t}; ALTER TABLE {t}_d ADD k INT; CREATE TABLE {t}_e LIKE {t}; ALTER TABLE {t}_e COMMENT 'x'; CREATE TABLE {t}_f LIKE {t}; ALTER TABLE {t}_f RENAME COLUMN t TO t2, ALGORITHM=COPY; CREATE TABLE {t}_g LIKE {t}; ALTER TABLE {t}_g ALTER c SET DEFAULT 5; CREATE TABLE {t}_h LIKE {t}; ALTER TABLE {t}_h MODIFY c BIGINT; CREATE TABLE {t}_i LIKE {t}; ALTER TABLE {t}_i FORCE; CREATE TABLE {t}_j LIKE {t}; OPTIMIZE TABLE {t}_j; CREATE TABLE {t}_k LIKE {t}; ALTER TABLE {t}_k MODIFY t TIMESTAMP(2) NOT NULL; CREATE TABLE {t}_l LIKE {t}; ALTER TABLE {t}_l CHANGE u v TIMESTAMP NOT NULL; CREATE TABLE {t}_m LIKE {t}; ALTER TABLE {t}_m DROP t; CREATE TABLE {t}_n LIKE {t}; ALTER TABLE {t}_n ADD w TIMESTAMP NOT NULL FIRST; CREATE TABLE {t}_o LIKE {t}; ALTER TABLE {t}_o ADD KEY (c); CREATE TABLE {t}_p LIKE {t}; ALTER TABLE {t}_p ALTER t DROP DEFAULT; CREATE TABLE {t}_q LIKE {t}; ALTER TABLE {t}_q PARTITION BY HASH (c)
----
INSERT INTO {t}_b (c) VALUES (1); INSERT INTO {t}_n (c) VALUES (2); UPDATE {t}_b SET c = 7

== timestamps in a primary key under other settings : replayed
SET sql_mode = '', explicit_defaults_for_timestamp = 0; CREATE TABLE {t} (c1 TIMESTAMP NULL, c2 TIMESTAMP NOT NULL PRIMARY KEY); INSERT INTO {t} VALUES (NULL, '2020-01-01 00:00:00')
----
CREATE TABLE {t}_b (c1 TIMESTAMP NULL, c2 TIMESTAMP NOT NULL, UNIQUE KEY (c2)); CREATE TABLE {t}_c (c2 TIMESTAMP NOT NULL, c3 TIMESTAMP NOT NULL, PRIMARY KEY (c2, c3)); CREATE TABLE {t}_d (c1 TIMESTAMP NULL); ALTER TABLE {t}_d ADD c2 TIMESTAMP NOT NULL, ADD PRIMARY KEY (c2); CREATE TABLE {t}_e (c1 TIMESTAMP NULL, c2 TIMESTAMP NOT NULL); CREATE TABLE {t}_f LIKE {t}_e; ALTER TABLE {t}_e ADD PRIMARY KEY (c2); ALTER TABLE {t}_f MODIFY c2 TIMESTAMP NOT NULL PRIMARY KEY; CREATE TABLE {t}_g LIKE {t}; ALTER TABLE {t}_g MODIFY c2 TIMESTAMP(3) NOT NULL; CREATE TABLE {t}_h (c1 TIMESTAMP NULL, c2 TIMESTAMP NOT NULL, PRIMARY KEY (c2)) SELECT 1 AS z; CREATE TABLE {t}_i (c1 TIMESTAMP NULL, c2 TIMESTAMP, PRIMARY KEY (c2)); CREATE TABLE {t}_j LIKE {t}; ALTER TABLE {t}_j CHANGE c2 c2 TIMESTAMP NOT NULL, DROP PRIMARY KEY; CREATE TABLE {t}_k LIKE {t}; ALTER TABLE {t}_k DROP PRIMARY KEY, ADD c3 TIMESTAMP NOT NULL, ADD PRIMARY KEY (c3, c2); CREATE TABLE {t}_l LIKE {t}; ALTER TABLE {t}_l ADD c3 TIMESTAMP NOT NULL; CREATE TABLE {t}_m LIKE {t}; ALTER TABLE {t}_m DROP PRIMARY KEY, ALGORITHM=COPY; CREATE TABLE {t}_n (c1 TIMESTAMP PRIMARY KEY); CREATE TABLE {t}_o (c1 TIMESTAMP NULL, c2 TIMESTAMP NOT NULL DEFAULT 0 PRIMARY KEY)
----
INSERT INTO {t}_m (c1) VALUES (NULL); UPDATE {t}_k SET c3 = '2021-01-01 00:00:00'

== keys over virtual columns in their order : replayed
CREATE TABLE {t} (a INT NOT NULL, v INT AS (a + 1) VIRTUAL NOT NULL, w INT AS (a + 2) VIRTUAL, s INT AS (a + 3) STORED NOT NULL, b INT NOT NULL, c INT, KEY k1 (v), KEY k2 (a), KEY k3 (w, a), KEY k4 (b, w), KEY k5 (s), UNIQUE u1 (v), UNIQUE u2 (w), UNIQUE u3 (c), UNIQUE u4 (s), UNIQUE u5 (b), UNIQUE u6 (a, v), UNIQUE u7 (a, c), KEY k6 ((a + 9)), KEY k7 (c))
----
INSERT INTO {t} (a, b, c) VALUES (1, 2, 3), (4, 5, 6); CREATE TABLE {t}_2 LIKE {t}; ALTER TABLE {t}_2 DROP KEY u5, DROP KEY u4, ADD KEY k8 (v, c), ADD UNIQUE u8 (b, a)
----
SET binlog_row_image = MINIMAL; UPDATE {t} SET c = 9 WHERE a = 1; DELETE FROM {t} WHERE a = 4

== shown, floating numbers that are wider than their columns : replayed
SET sql_mode = ''
----
CREATE TABLE {t}_1 (id INT PRIMARY KEY, a FLOAT DEFAULT -7.3e11, b FLOAT DEFAULT 123457000000, c FLOAT DEFAULT -0.0000123457, d FLOAT DEFAULT 1e-7, e FLOAT DEFAULT 1e20, f DOUBLE DEFAULT -1.5e20, g DOUBLE DEFAULT 1e15, h DOUBLE DEFAULT 123456789012345678901234, i FLOAT DEFAULT 3.4e38, j FLOAT DEFAULT 0.1, k DOUBLE DEFAULT 0.1, l FLOAT DEFAULT -1e12, m FLOAT DEFAULT 999999999999, n FLOAT(9,3) DEFAULT 16777.217, o FLOAT ZEROFILL DEFAULT 1.5, p DOUBLE ZEROFILL DEFAULT 1e30, q DECIMAL(8,2) ZEROFILL DEFAULT 1.5)
