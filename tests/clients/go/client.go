// What go-sql-driver is told: `client go HOST PORT USER PASSWORD TLS`, TLS 1 or 0. See ../README.md.
package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

func open(password string) *sql.DB {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net = os.Args[4], password, "tcp"
	config.Addr = os.Args[2] + ":" + os.Args[3]
	config.MultiStatements = true
	config.TLSConfig = "false"
	if os.Args[6] == "1" {
		config.TLSConfig = "skip-verify"
	}
	db, err := sql.Open("mysql", config.FormatDSN())
	must(err)
	db.SetMaxOpenConns(1)
	return db
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func shown(rows *sql.Rows, err error) {
	must(err)
	defer rows.Close()
	for {
		types, err := rows.ColumnTypes()
		must(err)
		fmt.Print("columns")
		for _, column := range types {
			nullable, _ := column.Nullable()
			precision, scale, _ := column.DecimalSize()
			length, _ := column.Length()
			fmt.Print(" ", column.Name(), "/", column.DatabaseTypeName(), "/", nullable, "/", precision, "/", scale, "/", length,
				"/", column.ScanType())
		}
		fmt.Println()
		for rows.Next() {
			values := make([]any, len(types))
			places := make([]any, len(types))
			for n := range values {
				places[n] = &values[n]
			}
			must(rows.Scan(places...))
			for _, value := range values {
				fmt.Printf("%T %q | ", value, fmt.Sprint(value))
			}
			fmt.Println()
		}
		must(rows.Err())
		if !rows.NextResultSet() {
			return
		}
	}
}

func refused(err error) {
	var refusal *mysql.MySQLError
	if errors.As(err, &refusal) {
		fmt.Println("error", refusal.Number, string(refusal.SQLState[:]))
	} else {
		fmt.Println("no error of the server:", err)
	}
}

func main() {
	ctx := context.Background()
	db := open(os.Args[5])
	connection, err := db.Conn(ctx)
	must(err)
	var name, cipher string
	must(connection.QueryRowContext(ctx, "SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher))
	fmt.Println("## tls", cipher != "")
	fmt.Println("## tables")
	rows, err := connection.QueryContext(ctx,
		"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'types' ORDER BY TABLE_NAME")
	must(err)
	var tables []string
	for rows.Next() {
		var table string
		must(rows.Scan(&table))
		if strings.HasPrefix(table, "t_") {
			tables = append(tables, table)
		}
	}
	must(rows.Err())
	for _, table := range tables {
		fmt.Println("#", table)
		shown(connection.QueryContext(ctx, "SELECT * FROM types."+table+" ORDER BY id"))
		statement, err := connection.PrepareContext(ctx, "SELECT * FROM types."+table+" WHERE id = ?")
		must(err)
		for _, id := range []int{202, 500, 202} {
			shown(statement.QueryContext(ctx, id))
		}
		must(statement.Close())
	}
	fmt.Println("## several results")
	shown(connection.QueryContext(ctx, "SELECT 1 AS a; SELECT 'two' AS b, 3.50 AS c, NULL AS d"))
	fmt.Println("## no such table")
	_, err = connection.QueryContext(ctx, "SELECT * FROM types.absent")
	refused(err)
	fmt.Println("## a large row")
	var large []byte
	must(connection.QueryRowContext(ctx, "SELECT v FROM big.t WHERE id = 1").Scan(&large))
	fmt.Printf("%d %x\n", len(large), sha256.Sum256(large))
	fmt.Println("## a killed statement")
	var number int64
	must(connection.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&number))
	go func() {
		time.Sleep(500 * time.Millisecond)
		_, err := open(os.Args[5]).Exec(fmt.Sprint("KILL QUERY ", number))
		must(err)
	}()
	var waited int
	refused(connection.QueryRowContext(ctx,
		"SELECT WAIT_FOR_EXECUTED_GTID_SET('aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:9', 20)").Scan(&waited))
	shown(connection.QueryContext(ctx, "SELECT 'goes on' AS a"))
	fmt.Println("## a wrong password")
	refused(open("not " + os.Args[5]).Ping())
}
