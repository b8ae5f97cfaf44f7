// What three ORMs of Node read and write, printed: node orm.js PORT PASSWORD
"use strict";
require("reflect-metadata");
const [port, password] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), user: "app", password, database: "app" };
const print = (what, value) => console.log(what + ": " + JSON.stringify(value));

async function sequelize() {
  const { Sequelize, DataTypes, Op } = require("sequelize");
  const db = new Sequelize(connection.database, connection.user, password, {
    host: connection.host, port: connection.port, dialect: "mysql", logging: false, pool: { max: 4 },
  });
  const Author = db.define("Author", { name: { type: DataTypes.STRING, unique: true }, born: DataTypes.DATEONLY });
  const Book = db.define("Book", { title: DataTypes.STRING, price: DataTypes.DECIMAL(10, 2), tags: DataTypes.JSON });
  Author.hasMany(Book);
  Book.belongsTo(Author);
  await db.sync({ force: true });
  for (let n = 0; n < 20; n += 1) {
    const author = await Author.create({ name: "author " + n, born: "19" + (10 + n) + "-02-03" });
    await Book.bulkCreate([0, 1, 2].map(b => ({ title: `book ${n}.${b}`, price: n + b / 10, tags: { n, b }, AuthorId: author.id })));
    print("found", (await Author.findByPk(author.id, { attributes: ["id", "name", "born"] })).toJSON());
    print("books", await Book.count({ where: { AuthorId: author.id } }));
  }
  const plain = { attributes: ["id", "title", "price", "tags"], raw: true, order: [["id", "ASC"]] };
  print("some", await Book.findAll({ ...plain, where: { price: { [Op.gt]: 17 } } }));
  print("joined", await Author.findAll({ attributes: ["name"], order: [["id", "ASC"], [Book, "id", "ASC"]],
    include: [{ model: Book, attributes: ["title"], where: { title: { [Op.like]: "%.1" } } }] }));
  print("sum", await Book.sum("price"));
  print("page", await Book.findAndCountAll({ ...plain, limit: 5, offset: 10 }));
  await db.transaction(async transaction => {
    const book = await Book.findOne({ where: { title: "book 3.1" }, transaction, lock: transaction.LOCK.UPDATE });
    await book.update({ price: 99.5 }, { transaction });
    print("in transaction", (await Book.findByPk(book.id, { ...plain, transaction })).price);
  });
  await db.transaction(async transaction => {
    await Book.destroy({ where: {}, transaction });
    throw new Error("undone");
  }).catch(error => print("rolled back", error.message));
  print("all are there", await Book.count());
  await Author.create({ name: "author 3" }).catch(error => print("refused", error.name));
  print("or created", (await Author.findOrCreate({ where: { name: "author 7" } }))[1]);
  await db.close();
}

async function knex() {
  const db = require("knex")({ client: "mysql2", connection: { ...connection }, pool: { min: 0, max: 4 } });
  await db.schema.dropTableIfExists("posts");
  await db.schema.createTable("posts", table => {
    table.increments("id");
    table.string("slug").notNullable().unique();
    table.text("body");
    table.integer("hits").defaultTo(0);
    table.boolean("shown").defaultTo(true);
  });
  for (let n = 0; n < 30; n += 1) {
    const [id] = await db("posts").insert({ slug: "post-" + n, body: "b".repeat(n), hits: n % 7, shown: n % 3 > 0 });
    print("row", await db("posts").where({ id }).first());
    await db("posts").where({ id }).increment("hits", 2);
    print("hits", await db("posts").where({ id }).pluck("hits"));
  }
  print("counted", await db("posts").count({ n: "*" }).where("shown", true));
  print("grouped", await db("posts").select("hits").count({ n: "*" }).groupBy("hits").orderBy("hits"));
  print("listed", await db("posts").whereIn("id", [3, 5, 8]).andWhere("hits", ">", 3).orderBy("id"));
  print("distinct", await db("posts").distinct("hits").orderBy("hits"));
  await db.transaction(async trx => {
    const rows = await trx("posts").where("id", "<", 4).orderBy("id");
    print("read", rows.length);
    await trx("posts").where({ id: 1 }).update({ hits: 100 });
    print("own change", await trx("posts").where({ id: 1 }).first("hits"));
    print("others", await trx("posts").where({ id: 2 }).first("hits"));
  });
  await db.transaction(async trx => {
    await trx("posts").del();
    await trx.rollback(new Error("undone"));
  }).catch(error => print("rolled back", error.message));
  print("left", await db("posts").count({ n: "*" }));
  await db("posts").insert({ slug: "post-3" }).catch(error => print("refused", error.code));
  print("merged", await db("posts").insert({ slug: "post-4", hits: 7 }).onConflict("slug").merge(["hits"]).then(() =>
    db("posts").where({ slug: "post-4" }).first("hits")));
  await db.destroy();
}

async function typeorm() {
  const { DataSource, EntitySchema, In, MoreThan } = require("typeorm");
  const Tag = new EntitySchema({ name: "Tag", columns: { id: { type: Number, primary: true, generated: true },
    name: { type: String, unique: true } } });
  const Item = new EntitySchema({ name: "Item", columns: { id: { type: Number, primary: true, generated: true },
    name: { type: String }, weight: { type: "double", nullable: true }, version: { type: Number, version: true } },
    relations: { tags: { target: "Tag", type: "many-to-many", joinTable: true, cascade: true } } });
  const source = new DataSource({ type: "mysql", ...connection, username: connection.user, entities: [Tag, Item],
    synchronize: true, dropSchema: true, logging: false });
  await source.initialize();
  const items = source.getRepository("Item"), tags = source.getRepository("Tag");
  const made = await tags.save(["red", "green", "blue"].map(name => ({ name })));
  for (let n = 0; n < 20; n += 1) {
    const item = await items.save({ name: "item " + n, weight: n / 3, tags: made.slice(n % 3) });
    print("item", await items.findOneBy({ id: item.id }));
  }
  print("with tags", await items.find({ relations: { tags: true }, where: { id: In([1, 5, 9]) }, order: { id: "ASC", tags: { id: "ASC" } } }));
  print("heavy", await items.countBy({ weight: MoreThan(4) }));
  print("paged", await items.findAndCount({ take: 3, skip: 4, order: { id: "DESC" } }));
  await source.transaction(async manager => {
    const item = await manager.findOneByOrFail("Item", { id: 2 });
    item.name = "renamed";
    await manager.save("Item", item);
    print("renamed", await manager.findOneBy("Item", { id: 2 }));
  });
  print("built", await items.createQueryBuilder("item").select("item.name", "name").addSelect("COUNT(tag.id)", "n")
    .leftJoin("item.tags", "tag").groupBy("item.id").orderBy("item.id").getRawMany());
  await source.transaction(async manager => {
    await manager.delete("Item", { id: 3 });
    throw new Error("undone");
  }).catch(error => print("rolled back", error.message));
  print("still there", await items.existsBy({ id: 3 }));
  await source.destroy();
}

(async () => {
  for (const [name, part] of Object.entries({ sequelize, knex, typeorm })) {
    print("program", name);
    await part();
  }
})().catch(error => { console.error(error); process.exit(1); });
