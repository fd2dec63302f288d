package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/go-amqp"
)

// An Error is an error from the broker or of the connection to it.
type Error struct {
	Op string // operation: send, receive, complete, peek-message …
	// AMQP condition such as com.microsoft:message-lock-lost; "": none
	Condition string
	Status    int    // of a management or token request, 0 otherwise
	Text      string // the broker's text
	cause     error
}

// Error returns the error as one line.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Text
	switch {
	case e.Condition != "" && e.Status != 0:
		text += fmt.Sprintf(" (%s, status %d)", e.Condition, e.Status)
	case e.Condition != "":
		text += fmt.Sprintf(" (%s)", e.Condition)
	case e.Status != 0:
		text += fmt.Sprintf(" (status %d)", e.Status)
	}
	return text
}

// Unwrap returns the underlying error of the AMQP library or the network, if any.
func (e *Error) Unwrap() error { return e.cause }

// Condition returns the AMQP condition of an error of this package; "" if it has none.
func Condition(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Condition
	}
	return ""
}

// wrap converts an error of the AMQP library to an [Error].
func wrap(op string, err error) error {
	if err == nil || errors.As(err, new(*Error)) {
		return err
	}
	e := &Error{Op: op, Text: err.Error(), cause: err}
	var (
		remote *amqp.Error
		conn   *amqp.ConnError
		sess   *amqp.SessionError
		link   *amqp.LinkError
	)
	switch {
	case errors.As(err, &remote):
	case errors.As(err, &conn):
		remote, e.Text = conn.RemoteErr, "the connection ended: "+e.Text
	case errors.As(err, &sess):
		remote, e.Text = sess.RemoteErr, "the AMQP session ended: "+e.Text
	case errors.As(err, &link):
		remote, e.Text = link.RemoteErr, "the link ended: "+e.Text
	case errors.Is(err, context.DeadlineExceeded):
		e.Text = "no answer in time"
	case errors.Is(err, context.Canceled):
		e.Text = "canceled before the answer arrived"
	}
	if remote != nil {
		e.Condition = string(remote.Condition)
		if remote.Description != "" {
			e.Text = remote.Description
		}
	}
	return e
}

// hasEnded reports whether an error means that a link, its session or the connection has ended.
func hasEnded(err error) bool {
	return errors.As(err, new(*amqp.LinkError)) || errors.As(err, new(*amqp.SessionError)) || errors.As(err, new(*amqp.ConnError))
}
