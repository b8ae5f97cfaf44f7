// What a JDBC client is told: `Client mysql|mariadb|mysql-server HOST PORT USER PASSWORD TLS`, TLS 1 or 0. With
// mysql-server, statements are prepared at the server. See ../README.md.

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

public class Client {
    private static String[] arguments;

    private static Connection open(String password) throws SQLException {
        boolean tls = arguments[5].equals("1");
        String to = arguments[1] + ":" + arguments[2] + "/?allowMultiQueries=true&";
        String url = switch (arguments[0]) {
            case "mariadb" -> "jdbc:mariadb://" + to + "sslMode=" + (tls ? "trust" : "disable");
            default -> "jdbc:mysql://" + to + "sslMode=" + (tls ? "REQUIRED" : "DISABLED") + "&connectionTimeZone=SERVER"
                + "&allowPublicKeyRetrieval=true&zeroDateTimeBehavior=CONVERT_TO_NULL&yearIsDateType=false&useServerPrepStmts="
                + arguments[0].equals("mysql-server");
        };
        return DriverManager.getConnection(url, arguments[3], password);
    }

    private static String text(ResultSet rows, int column) throws SQLException {
        try {
            Object value = rows.getObject(column);
            if (value instanceof byte[] bytes) {
                return "x" + HexFormat.of().formatHex(bytes);
            }
            return value == null ? "null" : value.getClass().getSimpleName() + " " + value;
        } catch (SQLException | RuntimeException error) {
            // A date that Java has not: the client says so at both, or at none.
            byte[] bytes = rows.getBytes(column);
            return error.getClass().getSimpleName() + " " + (bytes == null ? "null" : HexFormat.of().formatHex(bytes));
        }
    }

    private static void shown(ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        StringBuilder line = new StringBuilder("columns");
        for (int n = 1; n <= columns.getColumnCount(); n++) {
            line.append(" ").append(String.join("/", columns.getColumnLabel(n), columns.getColumnName(n),
                columns.getTableName(n), columns.getCatalogName(n), columns.getColumnTypeName(n), columns.getColumnClassName(n),
                "" + columns.getColumnType(n), "" + columns.getPrecision(n), "" + columns.getScale(n),
                "" + columns.getColumnDisplaySize(n), "" + columns.isNullable(n), "" + columns.isSigned(n),
                "" + columns.isAutoIncrement(n), "" + columns.isCaseSensitive(n)));
        }
        System.out.println(line);
        while (rows.next()) {
            StringBuilder row = new StringBuilder();
            for (int n = 1; n <= columns.getColumnCount(); n++) {
                row.append(text(rows, n)).append(" | ");
            }
            System.out.println(row);
        }
    }

    private interface Call {
        void run() throws SQLException;
    }

    private static void refused(Call call) {
        try {
            call.run();
            System.out.println("no error");
        } catch (SQLException error) {
            System.out.println("error " + error.getErrorCode() + " " + error.getSQLState());
        }
    }

    public static void main(String[] given) throws Exception {
        arguments = given;
        try (Connection connection = open(arguments[4]); Statement statement = connection.createStatement()) {
            ResultSet cipher = statement.executeQuery("SHOW STATUS LIKE 'Ssl_cipher'");
            cipher.next();
            System.out.println("## tls " + !cipher.getString(2).isEmpty());
            System.out.println("## tables");
            List<String> tables = new ArrayList<>();
            ResultSet names = statement.executeQuery(
                "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'types' ORDER BY TABLE_NAME");
            while (names.next()) {
                if (names.getString(1).startsWith("t_")) {
                    tables.add(names.getString(1));
                }
            }
            for (String table : tables) {
                System.out.println("# " + table);
                shown(statement.executeQuery("SELECT * FROM types." + table + " ORDER BY id"));
                String sql = "SELECT * FROM types." + table + " WHERE id = ?";
                try (PreparedStatement prepared = connection.prepareStatement(sql)) {
                    for (int id : new int[] {202, 500, 202}) {
                        prepared.setInt(1, id);
                        shown(prepared.executeQuery());
                    }
                }
            }
            System.out.println("## several results");
            boolean more = statement.execute("SELECT 1 AS a; SELECT 'two' AS b, 3.50 AS c, NULL AS d");
            while (more) {
                shown(statement.getResultSet());
                more = statement.getMoreResults();
            }
            System.out.println("## no such table");
            refused(() -> statement.executeQuery("SELECT * FROM types.absent"));
            System.out.println("## a large row");
            ResultSet large = statement.executeQuery("SELECT v FROM big.t WHERE id = 1");
            large.next();
            byte[] bytes = large.getString(1).getBytes(StandardCharsets.UTF_8);
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            System.out.println(bytes.length + " " + HexFormat.of().formatHex(digest));
            System.out.println("## a killed statement");
            ResultSet id = statement.executeQuery("SELECT CONNECTION_ID()");
            id.next();
            long number = id.getLong(1);
            Thread killer = new Thread(() -> {
                try (Connection other = open(arguments[4]); Statement kill = other.createStatement()) {
                    Thread.sleep(500);
                    kill.execute("KILL QUERY " + number);
                } catch (Exception error) {
                    System.out.println(error);
                }
            });
            killer.start();
            refused(() -> statement.executeQuery(
                "SELECT WAIT_FOR_EXECUTED_GTID_SET('aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:9', 20)").next());
            killer.join();
            shown(statement.executeQuery("SELECT 'goes on' AS a"));
            System.out.println("## a wrong password");
            refused(() -> open("not " + arguments[4]).close());
        }
    }
}
