// What mysql2 is told: `client.js mysql2 HOST PORT USER PASSWORD TLS`, TLS 1 or 0. See ../README.md.
"use strict";
const { createHash } = require("crypto");
const mysql = require("mysql2/promise");

const [, host, port, user, password, tls] = process.argv.slice(2);

function connect(secret) {
  return mysql.createConnection({
    host, port: Number(port), user, password: secret, multipleStatements: true,
    ssl: tls === "1" ? { rejectUnauthorized: false } : undefined,
    supportBigNumbers: true, bigNumberStrings: true,
  });
}

function value(v) {
  if (Buffer.isBuffer(v)) return "x" + v.toString("hex");
  if (v instanceof Date) return "date " + (isNaN(v) ? "invalid" : v.toISOString());
  return typeof v + " " + (typeof v === "object" ? JSON.stringify(v) : String(v));
}

function shown(rows, fields) {
  console.log("columns", ...fields.map((f) =>
    [f.name, f.columnType, f.columnLength, f.decimals, f.flags, f.characterSet, f.table, f.orgName, f.schema].join("/")));
  for (const row of rows) console.log(fields.map((f, n) => value(row[n])).join(" | "));
}

async function refused(call) {
  try {
    await call();
    console.log("no error");
  } catch (error) {
    console.log("error", error.errno, error.sqlState);
  }
}

(async () => {
  const client = await connect(password);
  const asked = async (sql) => client.query({ sql, rowsAsArray: true });
  const [[[, cipher]]] = await asked("SHOW STATUS LIKE 'Ssl_cipher'");
  console.log("## tls", cipher !== "");
  console.log("## tables");
  const [tables] = await asked(
    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'types' ORDER BY TABLE_NAME");
  for (const [table] of tables.filter(([name]) => name.startsWith("t_"))) {
    console.log("#", table);
    shown(...(await asked(`SELECT * FROM types.${table} ORDER BY id`)));
    for (const id of [202, 500, 202]) {
      shown(...(await client.execute({ sql: `SELECT * FROM types.${table} WHERE id = ?`, rowsAsArray: true }, [id])));
    }
  }
  console.log("## several results");
  const [results, fields] = await asked("SELECT 1 AS a; SELECT 'two' AS b, 3.50 AS c, NULL AS d");
  results.forEach((rows, n) => shown(rows, fields[n]));
  console.log("## no such table");
  await refused(() => asked("SELECT * FROM types.absent"));
  console.log("## a large row");
  const [[[large]]] = await asked("SELECT v FROM big.t WHERE id = 1");
  console.log(Buffer.byteLength(large), createHash("sha256").update(large).digest("hex"));
  console.log("## a killed statement");
  const [[[number]]] = await asked("SELECT CONNECTION_ID()");
  const other = await connect(password);
  setTimeout(() => other.query(`KILL QUERY ${number}`), 500);
  await refused(() => asked("SELECT WAIT_FOR_EXECUTED_GTID_SET('aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:9', 20)"));
  shown(...(await asked("SELECT 'goes on' AS a")));
  console.log("## a wrong password");
  await refused(() => connect("not " + password));
  await other.end();
  await client.end();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
