/** pgjdbc: java -cp postgresql.jar Jdbc.java HOST PORT DATABASE TOKEN */
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public class Jdbc {
  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static List<String> column(ResultSet rows, String name) throws SQLException {
    List<String> values = new ArrayList<>();
    while (rows.next()) values.add(rows.getString(name));
    return values;
  }

  public static void main(String[] args) throws Exception {
    String url = "jdbc:postgresql://" + args[0] + ":" + args[1] + "/" + args[2];
    try (Connection writer = DriverManager.getConnection(url + "?reWriteBatchedInserts=true", "writer", args[3])) {
      try (Statement statement = writer.createStatement()) {
        statement.execute("CREATE TABLE jdbc_parents (id bigint PRIMARY KEY, name text)");
        statement.execute("CREATE TABLE jdbc_rows (id serial PRIMARY KEY, parent bigint REFERENCES jdbc_parents, text text)");
        statement.execute("INSERT INTO jdbc_parents VALUES (1, 'one')");
      }
      writer.setAutoCommit(false);
      try (PreparedStatement insert = writer.prepareStatement("INSERT INTO jdbc_rows (parent, text) VALUES (?, ?)")) {
        for (int n = 0; n < 2000; n++) {
          insert.setLong(1, 1);
          insert.setString(2, "row " + n);
          insert.addBatch();
        }
        insert.executeBatch();
      }
      writer.commit();
      // A portal is read in parts.
      try (PreparedStatement select = writer.prepareStatement("SELECT id FROM jdbc_rows WHERE parent = ?")) {
        select.setFetchSize(100);
        select.setLong(1, 1);
        check(column(select.executeQuery(), "id").size() == 2000, "rows of a portal");
      }
      // From the fifth time on the statement is prepared by name, and its results are binary.
      try (PreparedStatement select = writer.prepareStatement("SELECT ?::int8 + 1 AS n, now() AS at, ARRAY[1, 2] AS list")) {
        for (int n = 0; n < 12; n++) {
          select.setLong(1, n);
          ResultSet row = select.executeQuery();
          row.next();
          check(row.getLong("n") == n + 1 && row.getTimestamp("at") != null && row.getArray("list") != null, "prepared");
        }
      }
      writer.commit();
      CopyManager copy = writer.unwrap(PGConnection.class).getCopyAPI();
      check(copy.copyIn("COPY jdbc_parents FROM STDIN", new StringReader("2\ttwo\n3\tthree\n")) == 2, "copy in");
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      check(copy.copyOut("COPY jdbc_parents TO STDOUT", out) == 3, "copy out");
      writer.commit();

      try (Statement sleeping = writer.createStatement()) {
        new Thread(() -> {
          try (Connection other = DriverManager.getConnection(url, "writer", args[3])) {
            String asleep = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            while (column(other.createStatement().executeQuery(asleep), "pid").isEmpty());
            sleeping.cancel();
          } catch (SQLException error) {
            throw new IllegalStateException(error);
          }
        }).start();
        sleeping.execute("SELECT pg_sleep(60)");
        check(false, "cancel");
      } catch (SQLException error) {
        check("57014".equals(error.getSQLState()), "cancel: " + error);
      }
      writer.rollback();
    }
    for (String user : List.of("writer", "reader")) {
      try (Connection connection = DriverManager.getConnection(url, user, args[3])) {
        var meta = connection.getMetaData();
        List<String> tables = column(meta.getTables(null, "data", "jdbc%", new String[] {"TABLE"}), "TABLE_NAME");
        check(tables.equals(List.of("jdbc_parents", "jdbc_rows")), "tables " + tables);
        List<String> columns = column(meta.getColumns(null, "data", "jdbc_rows", "%"), "COLUMN_NAME");
        check(columns.equals(List.of("id", "parent", "text")), "columns " + columns);
        check(column(meta.getPrimaryKeys(null, "data", "jdbc_rows"), "COLUMN_NAME").equals(List.of("id")), "keys");
        check(column(meta.getImportedKeys(null, "data", "jdbc_rows"), "PKTABLE_NAME").equals(List.of("jdbc_parents")), "foreign keys");
        check(column(meta.getIndexInfo(null, "data", "jdbc_rows", false, false), "INDEX_NAME").contains("jdbc_rows_pkey"), "indexes");
        check(column(meta.getSchemas(), "TABLE_SCHEM").contains("data"), "schemas");
        check(column(meta.getTypeInfo(), "TYPE_NAME").contains("jsonb"), "types");
        connection.setReadOnly("reader".equals(user));
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
          statement.execute("DELETE FROM jdbc_rows WHERE id = 1");
          check("writer".equals(user), "the reader wrote");
        } catch (SQLException error) {
          check("reader".equals(user), error.toString());
        }
        connection.rollback();
      }
    }
  }
}
