// What Hibernate reads and writes through a pool, printed: java Orm PORT PASSWORD

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import jakarta.persistence.*;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

public class Orm {
    @Entity(name = "Customer")
    public static class Customer {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @Column(unique = true) String name;
        @Version int version;
        @OneToMany(mappedBy = "customer", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("id")
        List<Purchase> purchases = new ArrayList<>();
    }

    @Entity(name = "Purchase")
    public static class Purchase {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        String what;
        BigDecimal price;
        @ManyToOne(fetch = FetchType.LAZY) Customer customer;
    }

    static void print(String what, Object value) {
        System.out.println(what + ": " + value);
    }

    static SessionFactory factory;

    static void in(boolean readOnly, Consumer<Session> work) {
        try (Session session = factory.openSession()) {
            session.setDefaultReadOnly(readOnly);
            session.doWork(connection -> connection.setReadOnly(readOnly));
            Transaction transaction = new Transaction(session);
            transaction.run(work);
            session.doWork(connection -> connection.setReadOnly(false));
        }
    }

    record Transaction(Session session) {
        void run(Consumer<Session> work) {
            session.beginTransaction();
            try {
                work.accept(session);
                session.getTransaction().commit();
            } catch (RuntimeException error) {
                session.getTransaction().rollback();
                print("rolled back", error.getClass().getSimpleName());
            }
        }
    }

    public static void main(String[] arguments) {
        HikariConfig pool = new HikariConfig();
        pool.setJdbcUrl("jdbc:mysql://127.0.0.1:" + arguments[0] + "/app?sslMode=PREFERRED&allowPublicKeyRetrieval=true");
        pool.setUsername("app");
        pool.setPassword(arguments[1]);
        pool.setMaximumPoolSize(4);
        HikariDataSource source = new HikariDataSource(pool);
        Configuration configuration = new Configuration();
        configuration.addAnnotatedClass(Customer.class).addAnnotatedClass(Purchase.class);
        configuration.getProperties().put("hibernate.connection.datasource", source);
        configuration.setProperty("hibernate.hbm2ddl.auto", "create");
        factory = configuration.buildSessionFactory();
        for (int n = 0; n < 30; n++) {
            int number = n;
            in(false, session -> {
                Customer customer = new Customer();
                customer.name = "customer " + number;
                for (int p = 0; p < number % 4; p++) {
                    Purchase purchase = new Purchase();
                    purchase.what = "thing " + p;
                    purchase.price = new BigDecimal(number * 10 + p).movePointLeft(1);
                    purchase.customer = customer;
                    customer.purchases.add(purchase);
                }
                session.persist(customer);
            });
            in(true, session -> {
                Customer customer = session.createQuery("from Customer where name = :name", Customer.class)
                    .setParameter("name", "customer " + number).getSingleResult();
                print("read", customer.name + " " + customer.version + " " + customer.purchases.size());
            });
        }
        in(false, session -> {
            Customer customer = session.find(Customer.class, 7L);
            print("found", customer.name + " " + customer.purchases.size());
            customer.purchases.remove(0);
            customer.name = "renamed";
            session.flush();
            print("own change", session.createNativeQuery("SELECT name FROM Customer WHERE id = 7", String.class)
                .getSingleResult());
            print("another table", session.createQuery("select count(p) from Purchase p", Long.class).getSingleResult());
        });
        in(true, session -> {
            print("after", session.find(Customer.class, 7L).version);
            print("sum", session.createQuery("select sum(price) from Purchase", BigDecimal.class).getSingleResult());
            print("joined", session.createQuery("select c.name, p.what, p.price from Purchase p join p.customer c "
                + "where p.price > 20 order by p.id", Object[].class).getResultList().stream()
                .map(java.util.Arrays::toString).toList());
            print("page", session.createQuery("select name from Customer order by id", String.class).setFirstResult(5)
                .setMaxResults(5).getResultList());
        });
        in(false, session -> {
            Customer customer = new Customer();
            customer.name = "renamed";
            session.persist(customer);
        });
        in(false, session -> {
            session.createMutationQuery("delete from Purchase").executeUpdate();
            throw new IllegalStateException("undone");
        });
        in(false, session -> {
            Customer locked = session.find(Customer.class, 9L, LockModeType.PESSIMISTIC_WRITE);
            locked.name = "locked";
        });
        in(true, session -> print("left", session.createQuery("select count(*) from Purchase", Long.class).getSingleResult()));
        factory.close();
        source.close();
    }
}
