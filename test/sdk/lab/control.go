package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxControlBody bounds the body of a control request, in bytes.
const maxControlBody = 64 << 10

// control is the API that suites call for what no client of a broker can do:
//
//	POST /kill     ends the broker with SIGKILL and starts it again on the same data and address; answers when it serves.
//	               A body {"queue": {"Property": value}} changes properties of queues before the start
//	POST /restart  stops the broker in order and starts it again; answers when it serves. A body {"limits": {"links": 7}} is
//	               its configuration file until the next start
//	POST /cut      resets all connections of clients
//	POST /relay    has another SDK, Go's, receive a message from one queue and send it to another one as it was received:
//	               {"from": "a", "to": "b"}
//	GET  /now      the broker's clock
type control struct {
	kill    func(Changes) error
	restart func(Settings) error
	cut     func() int
	relay   func(Route) error
	now     func() time.Time
}

func (c control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /kill", func(w http.ResponseWriter, r *http.Request) { serve(w, r, c.kill) })
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) { serve(w, r, c.restart) })
	mux.HandleFunc("POST /relay", func(w http.ResponseWriter, r *http.Request) { serve(w, r, c.relay) })
	mux.HandleFunc("POST /cut", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"connections": c.cut()})
	})
	mux.HandleFunc("GET /now", func(w http.ResponseWriter, _ *http.Request) {
		now := c.now().UTC()
		answer(w, map[string]any{"now": now.Format("2006-01-02T15:04:05.000Z"), "unixMilliseconds": now.UnixMilli()})
	})
	mux.ServeHTTP(w, r)
}

// serve has the body of a request, or the zero value where there is none, act on the broker.
func serve[T any](w http.ResponseWriter, r *http.Request, act func(T) error) {
	var body T
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))
	dec.UseNumber()
	if err := dec.Decode(&body); err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, fmt.Sprintf("body: %v", err), http.StatusBadRequest)
		return
	}
	began := time.Now()
	if err := act(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"milliseconds": time.Since(began).Milliseconds()})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the suite may be gone
}
