package ledgerbus;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.ServiceBusErrorSource;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;

/** The kinds of errors of scenarios.json, as this SDK gives them. */
enum Kind implements Predicate<Throwable> {
    LOCK_LOST(reason(ServiceBusFailureReason.MESSAGE_LOCK_LOST)),
    SESSION_LOCK_LOST(reason(ServiceBusFailureReason.SESSION_LOCK_LOST)),
    SESSION_HELD(reason(ServiceBusFailureReason.SESSION_CANNOT_BE_LOCKED)),
    NO_SESSION(reason(ServiceBusFailureReason.SERVICE_TIMEOUT).or(cause(TimeoutException.class))),
    MESSAGE_NOT_FOUND(reason(ServiceBusFailureReason.MESSAGE_NOT_FOUND)),
    ENTITY_NOT_FOUND(reason(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND)),
    DISABLED(reason(ServiceBusFailureReason.MESSAGING_ENTITY_DISABLED)),
    QUEUE_FULL(reason(ServiceBusFailureReason.QUOTA_EXCEEDED)),
    TOO_LARGE(reason(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED)),
    NOT_ALLOWED(cause(UnsupportedOperationException.class)),
    ARGUMENT(condition(AmqpErrorCondition.ARGUMENT_ERROR).or(cause(IllegalArgumentException.class))),
    UNAUTHORIZED(reason(ServiceBusFailureReason.UNAUTHORIZED)),
    NO_MATCH(text("com.microsoft:no-matching-subscription")),
    RULE_EXISTS(reason(ServiceBusFailureReason.MESSAGING_ENTITY_ALREADY_EXISTS)),
    RULE_MISSING(reason(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND)),
    TRANSACTION_UNKNOWN(text("amqp:transaction:unknown-id")),
    TRANSACTION_ROLLED_BACK(text("amqp:transaction:rollback")),
    ADMIN_EXISTS(cause(ResourceExistsException.class)),
    /** A subscription that is not there is a feed to this SDK, as it is in the cloud, which it cannot read. */
    ADMIN_MISSING(cause(ResourceNotFoundException.class).or(text("entry' but it was: {http://www.w3.org/2005/Atom}feed'"))),
    ADMIN_BAD_REQUEST(status(400)),
    ADMIN_UNAUTHORIZED(status(401)),
    /** No kind of the list: a call that failed for want of a connection, which exclusive scenarios make again. */
    NO_CONNECTION(Kind::lacksConnection),
    /** No kind of the list: what the SDK says of a message that it has settled, without asking the broker. */
    SETTLED(text("already settled"));

    private final Predicate<Throwable> is;

    Kind(Predicate<Throwable> is) {
        this.is = is;
    }

    @Override
    public boolean test(Throwable error) {
        return is.test(error);
    }

    /**
     * A ServiceBusException with a reason. Receive and accept calls give the AmqpException that is under it elsewhere, bare or in a
     * RuntimeException; the SDK's own constructor says what reason that stands for.
     */
    private static Predicate<Throwable> reason(ServiceBusFailureReason reason) {
        return error -> {
            for (Throwable e = error; e != null; e = e.getCause()) {
                ServiceBusFailureReason is = reason(e);
                if (is != ServiceBusFailureReason.GENERAL_ERROR) {
                    return is == reason;
                }
            }
            return false;
        };
    }

    private static ServiceBusFailureReason reason(Throwable error) {
        if (error instanceof AmqpException amqp) {
            return new ServiceBusException(amqp, ServiceBusErrorSource.RECEIVE).getReason();
        }
        return error instanceof ServiceBusException bus ? bus.getReason() : ServiceBusFailureReason.GENERAL_ERROR;
    }

    private static Predicate<Throwable> condition(AmqpErrorCondition condition) {
        return error -> {
            for (Throwable e = error; e != null; e = e.getCause()) {
                if (e instanceof AmqpException amqp && amqp.getErrorCondition() == condition) {
                    return true;
                }
            }
            return false;
        };
    }

    private static boolean lacksConnection(Throwable error) {
        for (Throwable e = error; e != null; e = e.getCause()) {
            if (e instanceof AmqpException amqp && amqp.isTransient() || e instanceof TimeoutException) {
                return true;
            }
            if (String.valueOf(e.getMessage()).contains("due to receive link closure")) { // of a settlement under way; has no condition
                return true;
            }
        }
        return false;
    }

    private static Predicate<Throwable> text(String part) {
        return error -> {
            for (Throwable e = error; e != null; e = e.getCause()) {
                if (e.toString().contains(part)) {
                    return true;
                }
            }
            return false;
        };
    }

    /** A refusal of the administration client. */
    private static Predicate<Throwable> status(int code) {
        return error -> error instanceof HttpResponseException e && e.getResponse() != null && e.getResponse().getStatusCode() == code;
    }

    private static Predicate<Throwable> cause(Class<? extends Throwable> type) {
        return error -> {
            for (Throwable e = error; e != null; e = e.getCause()) {
                if (type.isInstance(e)) {
                    return true;
                }
            }
            return false;
        };
    }
}
