// A shop as Spring Boot applications are written: Flyway, Spring Data JPA over Hibernate, JdbcTemplate, HikariCP, each
// service's methods @Transactional. What it reads is printed: java Shop PORT PASSWORD

package shop;

import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.data.domain.*;
import org.springframework.data.jpa.repository.*;
import org.springframework.data.jpa.repository.EntityGraph;
import org.springframework.data.jpa.repository.Query;
import org.springframework.data.jpa.repository.config.EnableJpaRepositories;
import org.springframework.data.repository.query.Param;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Isolation;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

@SpringBootApplication
@EnableJpaRepositories(considerNestedRepositories = true)
public class Shop {
    @Entity(name = "Customer")
    public static class Customer {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String name;
        String city;
        LocalDateTime since;
        @Version long version;
        @OneToMany(mappedBy = "customer", cascade = CascadeType.ALL) @OrderBy("id") List<Purchase> purchases = new ArrayList<>();
    }

    @Entity(name = "Product")
    public static class Product {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String sku;
        String title;
        BigDecimal price;
        int stock;
        @ManyToMany @JoinTable(name = "product_tag") List<Tag> tags = new ArrayList<>();
    }

    @Entity(name = "Tag")
    public static class Tag {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String name;
    }

    public enum State { OPEN, PAID, SENT }

    @Entity(name = "Purchase")
    public static class Purchase {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @ManyToOne(fetch = FetchType.LAZY) Customer customer;
        @Enumerated(EnumType.STRING) @Column(columnDefinition = "varchar(10)") State state = State.OPEN;
        @OneToMany(mappedBy = "purchase", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("id")
        List<Line> lines = new ArrayList<>();
    }

    @Entity(name = "Line")
    public static class Line {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @ManyToOne(fetch = FetchType.LAZY) Purchase purchase;
        @ManyToOne(fetch = FetchType.LAZY) Product product;
        int quantity;
        BigDecimal price;
    }

    public interface Sold {
        String getTitle();
        long getPieces();
        BigDecimal getTurnover();
    }

    public interface Customers extends JpaRepository<Customer, Long>, JpaSpecificationExecutor<Customer> {
        Optional<Customer> findByName(String name);
        List<Customer> findByCityIgnoreCaseOrderByNameDesc(String city);
        boolean existsByName(String name);
        long countByCity(String city);
        @EntityGraph(attributePaths = "purchases") Optional<Customer> findWithPurchasesById(Long id);
        Slice<Customer> findByNameContaining(String part, Pageable page);
    }

    public interface Products extends JpaRepository<Product, Long> {
        @Lock(LockModeType.PESSIMISTIC_WRITE) @Query("select p from Product p where p.sku = :sku")
        Optional<Product> lockBySku(@Param("sku") String sku);
        List<Product> findByTagsNameAndPriceLessThanOrderByPriceAsc(String tag, BigDecimal price);
        List<Product> findTop3ByStockGreaterThanOrderByStockDescIdAsc(int stock);
        @Modifying(clearAutomatically = true) @Query("update Product p set p.price = p.price * 1.1 where p.stock < :stock")
        int dearer(@Param("stock") int stock);
    }

    public interface Tags extends JpaRepository<Tag, Long> {
        Tag findByName(String name);
    }

    public interface Purchases extends JpaRepository<Purchase, Long> {
        Page<Purchase> findByState(State state, Pageable page);
        @Query("select l.product.title as title, sum(l.quantity) as pieces, sum(l.quantity * l.price) as turnover "
            + "from Line l group by l.product.title having sum(l.quantity) > 1 order by l.product.title")
        List<Sold> sold();
        @Query(nativeQuery = true, value = "select p.id from purchase p left join line l on l.purchase_id = p.id where l.id is null")
        List<Long> empty();
        @Query("select p from Purchase p join fetch p.lines l join fetch l.product where p.id = :id")
        Optional<Purchase> whole(@Param("id") Long id);
    }

    static void print(String what, Object value) {
        System.out.println("shop " + what + ": " + value);
    }

    @Service
    public static class Counter {
        @Autowired Customers customers;
        @Autowired Products products;
        @Autowired Tags tags;
        @Autowired Purchases purchases;
        @Autowired JdbcTemplate jdbc;
        @Autowired EntityManager entities;

        @Transactional
        public void stock() {
            for (String name : List.of("red", "green", "blue")) {
                Tag tag = new Tag();
                tag.name = name;
                tags.save(tag);
            }
            for (int n = 0; n < 12; n++) {
                Product product = new Product();
                product.sku = "sku-" + n;
                product.title = "thing " + n;
                product.price = new BigDecimal(n * 3 + 1).movePointLeft(1);
                product.stock = 40 + n % 5;
                product.tags.add(tags.findByName(List.of("red", "green", "blue").get(n % 3)));
                products.save(product);
            }
        }

        @Transactional
        public Long register(String name, String city) {
            if (customers.existsByName(name)) {
                throw new IllegalArgumentException(name);
            }
            Customer customer = new Customer();
            customer.name = name;
            customer.city = city;
            customer.since = LocalDateTime.of(2026, 1, 2, 3, 4, 5);
            return customers.save(customer).id;
        }

        /** Reads, locks, writes, reads what it wrote. */
        @Transactional
        public Long buy(String name, String... skus) {
            Customer customer = customers.findByName(name).orElseThrow();
            Purchase purchase = new Purchase();
            purchase.customer = customer;
            for (String sku : skus) {
                Product product = products.lockBySku(sku).orElseThrow();
                if (product.stock == 0) {
                    throw new IllegalStateException("sold out: " + sku);
                }
                product.stock -= 1;
                Line line = new Line();
                line.purchase = purchase;
                line.product = product;
                line.quantity = 1 + purchase.lines.size();
                line.price = product.price;
                purchase.lines.add(line);
            }
            purchases.saveAndFlush(purchase);
            print("lines of it", jdbc.queryForObject("select count(*) from line where purchase_id = ?", Integer.class, purchase.id));
            return purchase.id;
        }

        @Transactional(readOnly = true)
        public void show(Long id) {
            Purchase purchase = purchases.whole(id).orElseThrow();
            print("purchase", purchase.state + " " + purchase.customer.name + " "
                + purchase.lines.stream().map(line -> line.quantity + " " + line.product.title + " " + line.price).toList());
        }

        @Transactional(readOnly = true)
        public void browse(int page) {
            PageRequest request = PageRequest.of(page, 4, Sort.by(Sort.Direction.DESC, "name"));
            Page<Customer> found = customers.findAll(
                (root, query, builder) -> builder.and(builder.like(root.get("name"), "customer%"), builder.isNotNull(root.get("city"))), request);
            print("page", found.getTotalElements() + " " + found.map(customer -> customer.name).getContent());
            print("slice", customers.findByNameContaining("1", request).map(customer -> customer.name + customer.version).getContent());
            print("open", purchases.findByState(State.OPEN, PageRequest.of(0, 2, Sort.by("id"))).getTotalElements());
            print("of a town", customers.findByCityIgnoreCaseOrderByNameDesc("town 1").stream().map(one -> one.name).toList());
            print("counted", customers.countByCity("town 2"));
            print("cheap", products.findByTagsNameAndPriceLessThanOrderByPriceAsc("red", new BigDecimal("3")).stream().map(one -> one.sku).toList());
            print("much", products.findTop3ByStockGreaterThanOrderByStockDescIdAsc(3).stream().map(one -> one.sku + one.stock).toList());
            print("with purchases", customers.findWithPurchasesById(3L).map(one -> one.purchases.size()));
            print("tags", products.findById(5L).map(one -> one.tags.get(0).name));
        }

        @Transactional(readOnly = true, isolation = Isolation.READ_COMMITTED)
        public void report() {
            for (Sold sold : purchases.sold()) {
                print("sold", sold.getTitle() + " " + sold.getPieces() + " " + sold.getTurnover());
            }
            print("empty", purchases.empty());
            print("by jdbc", jdbc.queryForList("select c.city, count(*) n, min(c.name) first from customer c group by c.city order by c.city"));
            print("dates", jdbc.queryForList("select id, since, date_format(since, '%Y-%m') m from customer where since >= ? order by id limit 2", "2026-01-01"));
        }

        @Transactional
        public void pay(Long id) {
            Purchase purchase = purchases.findById(id).orElseThrow();
            purchase.state = State.PAID;
            print("still open", purchases.findByState(State.OPEN, PageRequest.of(0, 3, Sort.by("id"))).getTotalElements());
        }

        @Transactional
        public void rename(Long id, String name) {
            Customer customer = customers.findById(id).orElseThrow();
            customer.name = name;
        }

        @Transactional(propagation = Propagation.REQUIRES_NEW, isolation = Isolation.READ_COMMITTED)
        public int dearer() {
            return products.dearer(41);
        }

        @Transactional
        public void stale() {
            Customer customer = customers.findById(2L).orElseThrow();
            jdbc.update("update customer set version = version + 1 where id = 2");
            customer.name = "stale";
        }

        @Transactional
        public void batches() {
            int[][] done = jdbc.batchUpdate("insert into audit (what, n) values (?, ?)",
                List.of(1, 2, 3, 4, 5), 2, (statement, n) -> { statement.setString(1, "batch"); statement.setInt(2, n); });
            print("batches", done.length);
            List<Map<String, Object>> rows = jdbc.queryForList("select what, n from audit where what = ? order by n", "batch");
            print("rows", rows);
        }
    }

    static void refused(Runnable work) {
        try {
            work.run();
            print("not refused", "");
        } catch (RuntimeException error) {
            print("refused", error.getClass().getSimpleName());
        }
    }

    public static void main(String[] arguments) {
        SpringApplication application = new SpringApplication(Shop.class);
        application.setDefaultProperties(Map.of(
            "spring.datasource.url", "jdbc:mysql://127.0.0.1:" + arguments[0] + "/app?allowPublicKeyRetrieval=true",
            "spring.datasource.username", "app", "spring.datasource.password", arguments[1],
            "spring.datasource.hikari.maximum-pool-size", "5", "spring.jpa.hibernate.ddl-auto", "validate",
            "spring.jpa.open-in-view", "false", "spring.main.banner-mode", "off", "logging.level.root", "error"));
        try (ConfigurableApplicationContext context = application.run()) {
            Counter counter = context.getBean(Counter.class);
            counter.stock();
            List<Long> bought = new ArrayList<>();
            for (int n = 0; n < 24; n++) {
                counter.register("customer " + n, "town " + n % 4);
                bought.add(counter.buy("customer " + n, "sku-" + n % 12, "sku-" + (n + 5) % 12, "sku-" + (n + 7) % 12));
                counter.show(bought.get(n));
                counter.browse(n / 5);
                if (n % 3 == 0) {
                    counter.pay(bought.get(n / 2));
                }
            }
            refused(() -> counter.register("customer 3", "town"));
            refused(() -> counter.buy("nobody", "sku-1"));
            refused(() -> counter.stale());
            counter.rename(5L, "renamed");
            refused(() -> counter.rename(6L, "renamed"));
            print("dearer", counter.dearer());
            counter.batches();
            counter.report();
            counter.browse(0);
        }
    }
}
