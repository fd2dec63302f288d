package ledgerbus;

import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.Predicate;

/** Says what was expected and what was seen where the two are not the same. */
final class Expect {
    /** What the list calls "at once". */
    static final Duration AT_ONCE = Duration.ofSeconds(3);

    private Expect() {}

    /** Something that is expected to fail, or is timed. */
    interface Action {
        void run() throws Exception;
    }

    static void equal(Object want, Object got, String what) {
        if (!Objects.deepEquals(want, got)) {
            throw new Failure("%s: want %s, got %s", what, want, got);
        }
    }

    static void different(Object other, Object got, String what) {
        if (Objects.deepEquals(other, got)) {
            throw new Failure("%s: %s again", what, got);
        }
    }

    static void that(boolean holds, String format, Object... args) {
        if (!holds) {
            throw new Failure(format, args);
        }
    }

    static void above(long bound, long got, String what) {
        that(got > bound, "%s: want more than %d, got %d", what, bound, got);
    }

    static void between(long least, long most, long got, String what) {
        that(least <= got && got <= most, "%s: want %d to %d, got %d", what, least, most, got);
    }

    static void near(Instant want, OffsetDateTime got, Duration tolerance, String what) {
        that(got != null && Duration.between(want, got.toInstant()).abs().compareTo(tolerance) <= 0, "%s: want %s ± %s, got %s", what, want, tolerance, got);
    }

    static void notBefore(OffsetDateTime bound, Instant got, String what) {
        that(!got.isBefore(bound.toInstant()), "%s: want no earlier than %s, got %s", what, bound, got);
    }

    /** At a time, or at once then. */
    static void at(OffsetDateTime want, Instant got, String what) {
        notBefore(want, got, what);
        soon(want.toInstant(), got, what);
    }

    /** At once after a time, or before. */
    static void soon(Instant want, Instant got, String what) {
        that(!got.isAfter(want.plus(AT_ONCE)), "%s: want at most %s after %s, got %s", what, AT_ONCE, want, got);
    }

    /** The result of a call that may take that long. */
    static <T> T within(Duration most, String what, Callable<T> call) throws Exception {
        Instant began = Instant.now();
        T result = call.call();
        Duration took = Duration.between(began, Instant.now());
        that(took.compareTo(most) <= 0, "%s: want at most %s, took %s", what, most, took);
        return result;
    }

    static <T> T atOnce(String what, Callable<T> call) throws Exception {
        return within(AT_ONCE, what, call);
    }

    static void error(Predicate<Throwable> kind, Action action) {
        error(kind, "", action);
    }

    /** An error of a kind, with a text somewhere in its message. */
    static void error(Predicate<Throwable> kind, String text, Action action) {
        try {
            action.run();
        } catch (Failure e) {
            throw e; // the suite's own word, not the SDK's
        } catch (Exception e) {
            that(kind.test(e), "want error %s, got %s", kind, chain(e));
            that(chain(e).contains(text), "want error %s with the text '%s', got %s", kind, text, chain(e));
            return;
        }
        throw new Failure("want error %s, got none", kind);
    }

    private static String chain(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable e = error; e != null; e = e.getCause()) {
            text.append(text.isEmpty() ? "" : "; caused by ").append(e);
        }
        return text.toString();
    }
}
