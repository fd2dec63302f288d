// Checks whose errors say what was expected and what was seen, on one line.
import { inspect, isDeepStrictEqual } from "node:util";

const show = (value) => inspect(value, { depth: 4, breakLength: Infinity, maxStringLength: 200, maxArrayLength: 30 });

export function fail(what, expected, seen) {
  throw new Error(`${what}: expected ${expected}, saw ${seen}`);
}

/** Two values are the same, in depth. */
export function same(what, seen, expected) {
  if (!isDeepStrictEqual(seen, expected)) fail(what, show(expected), show(seen));
}

/** An object has these properties with these values; it may have others. */
export function has(what, object, expected) {
  same(what, Object.fromEntries(Object.keys(expected).map((name) => [name, object[name]])), expected);
}

/** A condition holds. */
export function holds(what, condition, seen) {
  if (!condition) fail(what, "this to hold", show(seen));
}

/** A number or a time is at least one and at most another. */
export function between(what, seen, low, high) {
  if (!(Number(seen) >= Number(low) && Number(seen) <= Number(high))) fail(what, `${text(low)} … ${text(high)}`, text(seen));
}

/** A time is another, give or take some milliseconds. */
export function about(what, seen, expected, tolerance) {
  between(what, seen, Number(expected) - tolerance, Number(expected) + tolerance);
}

/** Times as times of day: their date is today. */
function text(value) {
  return Number(value) > 1e12 && Number(value) < 1e13 ? new Date(Number(value)).toISOString().slice(11, -1) : show(value);
}

/** What the list calls "at once", in milliseconds. */
export const promptly = 3000;

/** A thing that happens at a time happens no earlier, and at once then. */
export const onTime = (what, seen, expected) => between(what, seen, expected, Number(expected) + promptly);

/** A thing that happens after a time, or had happened before, has happened at once. */
export const atOnce = (what, seen, since) => between(what, seen, 0, Number(since) + promptly);

// The kinds of errors of scenarios.json, by what the SDK makes of them. Most have a code; what has none of its own is a
// GeneralError, with the name of the condition before the broker's text.
const kinds = {
  "lock-lost": [{ code: "MessageLockLost" }],
  "session-lock-lost": [{ code: "SessionLockLost" }],
  "session-held": [{ code: "SessionCannotBeLocked" }],
  "no-session": [{ code: "ServiceTimeout" }],
  "message-not-found": [{ code: "MessageNotFound" }],
  "entity-not-found": [{ code: "MessagingEntityNotFound" }],
  disabled: [{ code: "MessagingEntityDisabled" }],
  "queue-full": [{ code: "QuotaExceeded" }],
  "too-large": [{ code: "MessageSizeExceeded" }],
  "not-allowed": [{ code: "GeneralError", message: /^InvalidOperationError: / }],
  argument: [
    { code: "GeneralError", message: /^ArgumentError: / },
    { message: /^Length of '\w+' property on the message cannot be greater than 128 characters/ },
  ],
  unauthorized: [{ code: "UnauthorizedAccess" }],
  "no-match": [{ code: "GeneralError", message: /^NoMatchingSubscriptionError: / }],
  "rule-exists": [{ code: "MessagingEntityAlreadyExists" }],
  "rule-missing": [{ code: "MessagingEntityNotFound" }],
  // of administration clients
  "admin-exists": [{ code: "MessageEntityAlreadyExistsError" }],
  "admin-missing": [{ code: "MessageEntityNotFoundError" }],
  "admin-bad-request": [{ statusCode: 400 }],
  "admin-unauthorized": [{ code: "UnauthorizedRequestError" }],
  // not in the list: what the SDK says without asking the broker
  settled: [{ message: /already settled/ }],
  "no-lock": [{ message: /not supported in 'receiveAndDelete'/ }],
  value: [{ message: /^Unsupported value for/ }],
};

/** A call fails with an error of a kind, whose message has the texts. */
export async function fails(kind, promise, ...texts) {
  let error;
  try {
    await promise;
  } catch (e) {
    error = e;
  }
  const expected = `error ${kind}${texts.map((t) => `, text '${t}'`).join("")}`;
  if (!error) fail("the call", expected, "no error");
  const fits = ({ code, statusCode, message }) =>
    (!code || error.code === code) && (!statusCode || error.statusCode === statusCode) && (!message || message.test(error.message));
  if (!kinds[kind].some(fits) || !texts.every((t) => error.message.includes(t))) {
    fail("the call", expected, describe(error));
  }
}

/** What is worth knowing of an error. */
export function describe(error) {
  if (error instanceof AggregateError) return `${error.errors.length} errors, the last: ${describe(error.errors.at(-1))}`;
  return `${error.name}${error.code ? ` ${error.code}` : ""}: ${error.message}`;
}
