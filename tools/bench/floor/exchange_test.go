package floor_test

import (
	"context"
	"io"
	"net"
	"time"
)

// exchange writes bytes to a server and reads until it ends the connection.
func exchange(ctx context.Context, address, bytes string) ([]byte, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, bytes); err != nil {
		return nil, err
	}
	got, err := io.ReadAll(c)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return got, context.DeadlineExceeded
	}
	return got, err
}
