module clients

go 1.23

require github.com/go-sql-driver/mysql v1.10.1
