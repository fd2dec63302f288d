// Rules: filters and actions. Made by the administration client, or over AMQP by the rule manager.
import { again, bodies, complete, lowPart, listed, nothing, number, one, remove, take } from "../bus.js";
import { fails, has, holds, same } from "../check.js";

const red = { applicationProperties: { colour: "red" } };
const blue = { applicationProperties: { colour: "blue" } };
const sql = (sqlExpression) => ({ sqlExpression });

/** What is known of a rule, without what the SDK fills in where nothing is. */
const plain = ({ name, filter, action }) => ({ name, filter: known(filter), action: known(action) });

function known(object = {}) {
  const something = (value) => value !== undefined && (value instanceof Date || typeof value !== "object" || Object.keys(value).length > 0);
  return Object.fromEntries(Object.entries(object).filter(([, value]) => something(value)));
}

const defaultRule = { name: "$Default", filter: sql("1=1"), action: {} };

/** The rules of a subscription are these, in this order. */
async function sameRules(rules, ...expected) {
  const seen = (await listed(rules)).map(plain);
  same("names of rules", seen.map((r) => r.name), expected.map((r) => r.name));
  for (const [i, rule] of expected.entries()) same(`rule ${rule.name}`, seen[i], { action: {}, ...rule });
}

/** Each subscription has these messages. */
async function sameOn(bus, expected) {
  for (const [name, messages] of Object.entries(expected)) {
    same(name, bodies(bus.sorted(await bus.on(name).peekAll())).join(" "), messages);
    await bus.on(name).deadLettersAreEmpty();
  }
}

export default {
  async "rule-default"(bus) {
    const admin = bus.admin();
    await sameRules(admin.listRules(bus.queue, "one"), defaultRule);
    await admin.createSubscription(bus.queue, "two");
    await sameRules(admin.listRules(bus.queue, "two"), defaultRule);
    const first = { name: "first", filter: sql("colour = 'red'"), action: sql("SET mark = 'm'") };
    await admin.createSubscription(bus.queue, "three", { defaultRuleOptions: first });
    await sameRules(admin.listRules(bus.queue, "three"), first);
    await bus.send("A", red);
    await bus.send("B", blue);
    for (const name of ["one", "two"]) await remove(bus.on(name).receiver(), "A", "B");
    const receiver = bus.on("three").receiver();
    has("properties", (await remove(receiver, "A"))[0].applicationProperties, { mark: "m" });
    await nothing(receiver);
  },

  async "rule-none"(bus) {
    const admin = bus.admin();
    await admin.deleteRule(bus.queue, "bare", "$Default");
    await sameRules(admin.listRules(bus.queue, "bare"));
    await bus.send("A");
    await nothing(bus.on("bare").receiver());
    const receiver = bus.on("one").receiver();
    await remove(receiver, "A");
    await admin.deleteRule(bus.queue, "one", "$Default");
    await bus.send("B");
    await nothing(receiver);
    await bus.on("one").peekIsEmpty();
    await admin.createRule(bus.queue, "one", "again", sql("1=1"));
    await bus.send("C");
    await remove(receiver, "C");
    await bus.on("bare").peekIsEmpty();
  },

  async "rule-sql"(bus) {
    await bus.send("1", { messageId: "id-1", subject: "order", applicationProperties: { colour: "blue", qty: 5, price: 2.5 } });
    await bus.send("2", { messageId: "id-2", subject: "order", applicationProperties: { colour: "Blue", qty: 12, price: 1.5 } });
    await bus.send("3", { messageId: "other", subject: "note" });
    await bus.send("4", { messageId: "other", subject: "note", applicationProperties: { colour: "red", qty: 12, price: 10.5 } });
    await sameOn(bus, {
      equal: "1", not: "2 4", compare: "2", precedence: "4", parentheses: "1 4", arithmetic: "2 4", in: "1 4", "not-in": "2",
      null: "3", "not-null": "1 2 4", exists: "1 2 4", like: "1", "like-one": "4", system: "1 2", property: "4", quoted: "4",
      number: "2 4", true: "1 2 3 4", false: "",
    });
  },

  async "rule-correlation"(bus) {
    await bus.send("1", {
      correlationId: "correlation", messageId: "id", to: "to", replyTo: "reply-to", subject: "order", sessionId: "group",
      replyToSessionId: "reply-group", contentType: "text/plain", applicationProperties: { colour: "red", qty: 5 },
    });
    await bus.send("2", { subject: "order", applicationProperties: { colour: "Red" } });
    await bus.send("3");
    await sameOn(bus, { all: "1", label: "1 2", "label-case": "", property: "1", number: "1", both: "2" });
  },

  async "rule-action"(bus) {
    const applicationProperties = { colour: "red", priority: "low", qty: 5 };
    await bus.send("A", { messageId: "id", subject: "order", applicationProperties });
    const subscription = bus.on("one");
    const receiver = subscription.receiver();
    const got = await take(receiver, "A", "A", "A");
    same("numbers", got.map((m) => lowPart(number(m))), [1, 2, 3]);
    const expected = [
      { subject: "order", applicationProperties },
      { subject: "marked", applicationProperties: { RuleName: "mark", priority: "high", qty: 5 } },
      { subject: "order", applicationProperties: { RuleName: "count", colour: "red", priority: "low", qty: 6, note: "was red" } },
    ];
    for (const [i, { applicationProperties: properties, ...rest }] of expected.entries()) {
      has(`copy ${i + 1}`, got[i], { messageId: "id", deliveryCount: 0, ...rest });
      const sorted = (object) => Object.entries(object).sort();
      same(`properties of copy ${i + 1}`, sorted(got[i].applicationProperties), sorted(properties));
    }
    await receiver.completeMessage(got[0]);
    await receiver.abandonMessage(got[2]);
    same("peek all", (await subscription.peekAll()).map((m) => m.applicationProperties.RuleName), ["mark", "count"]);
    same("the other", (await remove(bus.on("other").receiver(), "A"))[0].applicationProperties, applicationProperties);
  },

  async "rule-evaluation-error"(bus) {
    await bus.send("A", red);
    await remove(bus.on("strict").receiver(), "A");
    for (const name of ["lenient", "acting"]) await nothing(bus.on(name).receiver());
    await bus.on("lenient").peekIsEmpty();
    await bus.on("lenient").deadLettersAreEmpty();
    for (const [name, deadLetterReason] of [["strict", "FilterException"], ["acting", "RuleActionException"]]) {
      const dead = await bus.on(name).peekAll({ subQueueType: "deadLetter" });
      same(`dead letters of ${name}`, dead.map((m) => [m.body, m.deadLetterReason]), [["A", deadLetterReason]]);
      holds("a description", dead[0].deadLetterErrorDescription, dead[0].deadLetterErrorDescription);
    }
    await remove(bus.on("other").receiver(), "A");
    await bus.on("other").deadLettersAreEmpty();
  },

  async "rule-change"(bus) {
    const admin = bus.admin();
    const send = (body, colour) => bus.send(body, { applicationProperties: { colour } });
    await send("A", "red");
    await admin.createRule(bus.queue, "one", "blue", sql("colour = 'blue'"));
    await send("B", "blue");
    await send("C", "green");
    await admin.deleteRule(bus.queue, "one", "red");
    await send("D", "red");
    await send("E", "blue");
    const changed = { ...(await admin.getRule(bus.queue, "one", "blue")), filter: sql("colour = 'green'") };
    await admin.updateRule(bus.queue, "one", changed);
    await send("F", "green");
    await send("G", "blue");
    const receiver = bus.on("one").receiver();
    await remove(receiver, "A", "B", "E", "F");
    await nothing(receiver);
    await fails("admin-exists", admin.createRule(bus.queue, "one", "BLUE", sql("1=1")));
    await fails("admin-missing", admin.deleteRule(bus.queue, "one", "red"));
    await fails("admin-missing", admin.getRule(bus.queue, "one", "red"));
    await fails("admin-missing", admin.updateRule(bus.queue, "one", { ...changed, name: "red" }));
    await sameRules(admin.listRules(bus.queue, "one"), { name: "blue", filter: sql("colour = 'green'") });
  },

  async "rule-refused"(bus) {
    const admin = bus.admin();
    const create = (...rule) => fails("admin-bad-request", admin.createRule(bus.queue, "one", ...rule));
    const filters = ["colour =", "colour = 'red", "AND", "1", "colour LIKE", "qty = 99999999999999999999", `colour = '${"x".repeat(1025 - 11)}'`];
    for (const [i, filter] of filters.entries()) await create(`rule${i}`, sql(filter));
    await create("action", sql("1=1"), sql("SET colour"));
    await fails("value", admin.createRule(bus.queue, "one", "correlation", { applicationProperties: {} })); // the SDK refuses it by itself
    await sameRules(admin.listRules(bus.queue, "one"), defaultRule);
    await bus.send("A");
    await remove(bus.on("one").receiver(), "A");
  },

  async "rule-parameters"(bus) {
    const admin = bus.admin();
    const filter = {
      sqlExpression: "colour = @colour AND qty >= @qty AND price < @price AND active = @active AND sys.EnqueuedTimeUtc > @since",
      sqlParameters: { "@colour": "red", "@qty": 5, "@price": 2.5, "@active": true, "@since": new Date("2020-01-02T03:04:05.678Z") },
    };
    const action = { sqlExpression: "SET mark = @mark", sqlParameters: { "@mark": "done" } };
    await admin.createRule(bus.queue, "one", "typed", filter, action);
    await admin.deleteRule(bus.queue, "one", "$Default");
    const got = plain(await admin.getRule(bus.queue, "one", "typed"));
    const sorted = (object) => Object.entries(object).sort();
    same("filter", got.filter.sqlExpression, filter.sqlExpression);
    same("parameters", sorted(got.filter.sqlParameters), sorted(filter.sqlParameters));
    same("action", got.action, action);
    for (const [body, other] of [["A", {}], ["B", { qty: 4 }], ["C", { active: false }]]) {
      await bus.send(body, { applicationProperties: { colour: "red", qty: 5, price: 2, active: true, ...other } });
    }
    const receiver = bus.on("one").receiver();
    has("properties", (await remove(receiver, "A"))[0].applicationProperties, { mark: "done" });
    await nothing(receiver);
  },

  async "rule-round-trip"(bus) {
    const admin = bus.admin();
    const rules = [
      defaultRule,
      { name: "a-sql", filter: sql("qty > 5 AND colour <> 'a&b<c>'"), action: sql("SET colour = 'a&b<c>'; REMOVE qty") },
      {
        name: "b-correlation",
        filter: {
          correlationId: "correlation", messageId: "id", to: "to", replyTo: "reply-to", subject: "subject", sessionId: "session",
          replyToSessionId: "reply-session", contentType: "text/plain",
          applicationProperties: { text: "x", whole: 7, half: 0.5, yes: true },
        },
      },
      { name: "c-true", filter: sql("1=1") },
      { name: "d-false", filter: sql("1=0") },
    ];
    for (const { name, filter, action } of rules.slice(1)) {
      if (action) await admin.createRule(bus.queue, "one", name, filter, action);
      else await admin.createRule(bus.queue, "one", name, filter);
    }
    await sameRules(admin.listRules(bus.queue, "one"), ...rules);
    for (const rule of rules) same(rule.name, plain(await admin.getRule(bus.queue, "one", rule.name)), { action: {}, ...rule });
    const changed = { ...(await admin.getRule(bus.queue, "one", "a-sql")), filter: { subject: "order" }, action: {} };
    await admin.updateRule(bus.queue, "one", changed);
    same("a-sql", plain(await admin.getRule(bus.queue, "one", "a-sql")), { name: "a-sql", filter: { subject: "order" }, action: {} });
    for (const { name } of rules) await admin.deleteRule(bus.queue, "one", name);
    await sameRules(admin.listRules(bus.queue, "one"));
  },

  async "rule-manager"(bus) {
    const admin = bus.admin();
    const manager = bus.client.createRuleManager(bus.queue, "one");
    const redRule = { name: "red", filter: sql("colour = 'red'"), action: sql("SET mark = 'm'") };
    const order = { name: "order", filter: { subject: "order", applicationProperties: { qty: 5 } } };
    const green = { name: "green", filter: sql("colour = 'green'") };
    same("names", (await listed(manager.listRules())).map((r) => r.name), ["$Default"]);
    await manager.createRule("red", redRule.filter, redRule.action);
    await manager.createRule("order", order.filter);
    await fails("rule-exists", manager.createRule("red", sql("1=1")));
    await fails("argument", manager.createRule("broken", sql("colour =")));
    await manager.deleteRule("$Default");
    await fails("rule-missing", manager.deleteRule("missing"));
    await sameRules(admin.listRules(bus.queue, "one"), order, redRule);

    await admin.createRule(bus.queue, "one", "green", green.filter);
    await admin.deleteRule(bus.queue, "one", "order");
    const seen = (await listed(manager.listRules())).map(plain).sort((a, b) => (a.name < b.name ? -1 : 1));
    same("rules over AMQP", seen, [{ ...green, action: {} }, redRule]);
    await bus.send("A", red);
    await bus.send("B", { applicationProperties: { colour: "green" } });
    await bus.send("C", { subject: "order", applicationProperties: { qty: 5 } });
    const receiver = bus.on("one").receiver();
    has("A", (await remove(receiver, "A", "B"))[0].applicationProperties, { mark: "m" });
    await nothing(receiver);
    await manager.close?.();
  },

  async "rule-before-publishing"(bus) {
    await bus.send("A", red);
    await fails("no-match", bus.send("B", blue));
    const receiver = bus.on("one").receiver();
    await remove(receiver, "A");
    await nothing(receiver);
  },

  async "rule-survives-kill"(bus) {
    const admin = bus.admin();
    const topic = bus.at("rule-survives-kill-made");
    const rule = { name: "red", filter: sql("colour = 'red'"), action: sql("SET id = newid(); SET mark = 'm'") };
    await again(() => admin.createTopic(topic.queue));
    await again(() => admin.createSubscription(topic.queue, "one"));
    await admin.createRule(topic.queue, "one", rule.name, rule.filter, rule.action);
    await admin.deleteRule(topic.queue, "one", "$Default");
    await again(() => topic.send("A", red));
    const subscription = topic.on("one");
    const [before] = await again(() => subscription.peekAll());
    await bus.kill();
    await again(() => sameRules(admin.listRules(topic.queue, "one"), rule));
    const receiver = subscription.receiver();
    const a = await again(() => one(receiver, "A"));
    const { id } = before.applicationProperties; // 16 bytes
    same("properties of A", a.applicationProperties, { ...red.applicationProperties, RuleName: "red", id, mark: "m" });
    await complete(receiver, [a]);
    await topic.send("B", blue);
    await topic.send("C", red);
    const [c] = await remove(receiver, "C");
    same("mark of C", c.applicationProperties.mark, "m");
    holds("another id", JSON.stringify(c.applicationProperties.id) !== JSON.stringify(id), id);
    await nothing(receiver);
  },
};
