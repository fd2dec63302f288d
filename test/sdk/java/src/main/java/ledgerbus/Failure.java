package ledgerbus;

/** A behaviour that is not as the scenario says. */
final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    Failure(String format, Object... args) {
        super(String.format(format, args));
    }

    Failure(Throwable cause, String format, Object... args) {
        super(String.format(format, args), cause);
    }
}
