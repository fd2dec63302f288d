// A check that lets everything pass would show anything.
import assert from "node:assert/strict";
import { test } from "node:test";
import { about, between, fails, has, holds, onTime, same } from "./check.js";

const saw = (message) => ({ message });

test("checks of values", () => {
  same("list", [1, { a: undefined }], [1, { a: undefined }]);
  assert.throws(() => same("list", ["1"], [1]), saw("list: expected [ 1 ], saw [ '1' ]"));
  assert.throws(() => same("state", undefined, null), saw("state: expected null, saw undefined"));
  has("message", { a: 1, b: 2 }, { a: 1 });
  assert.throws(() => has("message", { a: 1, b: 2 }, { b: 1 }), saw("message: expected { b: 1 }, saw { b: 2 }"));
  assert.throws(() => has("message", {}, { b: null }), saw("message: expected { b: null }, saw { b: undefined }"));
  holds("yes", true);
  assert.throws(() => holds("no", 0, "zero"), saw("no: expected this to hold, saw 'zero'"));
});

test("checks of times", () => {
  const noon = new Date(Date.UTC(2026, 0, 1, 12));
  about("time", noon, Number(noon) + 5, 5);
  const early = saw("time: expected 12:00:00.001 … 12:00:00.011, saw 12:00:00.000");
  assert.throws(() => about("time", noon, Number(noon) + 6, 5), early);
  onTime("delivery", Number(noon) + 3000, noon);
  assert.throws(() => onTime("delivery", Number(noon) - 1, noon));
  assert.throws(() => onTime("delivery", Number(noon) + 3001, noon));
  assert.throws(() => between("time", undefined, 0, 1), saw("time: expected 0 … 1, saw undefined"));
});

test("checks of errors", async () => {
  const error = (code, message) => Promise.reject(Object.assign(new Error(message), { code }));
  await fails("lock-lost", error("MessageLockLost", "The lock"), "lock");
  const long = "Length of 'messageId' property on the message cannot be greater than 128 characters.";
  await fails("argument", error(undefined, long));
  const answer = Object.assign(new Error("SubCode=40000"), { code: "ServiceError", statusCode: 400 });
  await fails("admin-bad-request", Promise.reject(answer), "SubCode");
  const wrong = (message, ...call) => assert.rejects(fails(...call), saw(`the call: expected error ${message}`));
  await wrong("lock-lost, saw no error", "lock-lost", Promise.resolve());
  await wrong("lock-lost, saw Error GeneralError: x", "lock-lost", error("GeneralError", "x"));
  await wrong("lock-lost, text 'y', saw Error MessageLockLost: x", "lock-lost", error("MessageLockLost", "x"), "y");
  await wrong("admin-bad-request, saw Error ServiceError: x", "admin-bad-request", error("ServiceError", "x"));
  await wrong("not-allowed, saw Error GeneralError: ArgumentError: x", "not-allowed", error("GeneralError", "ArgumentError: x"));
});
