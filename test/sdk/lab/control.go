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
//	POST /kill   ends the broker with SIGKILL and starts it again on the same data and address; answers when it serves.
//	             A body {"queue": {"Property": value}} changes properties of queues before the start
//	POST /cut    resets all connections of clients
//	GET  /now    the broker's clock
type control struct {
	kill func(Changes) error
	cut  func() int
	now  func() time.Time
}

func (c control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /kill", c.serveKill)
	mux.HandleFunc("POST /cut", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"connections": c.cut()})
	})
	mux.HandleFunc("GET /now", func(w http.ResponseWriter, _ *http.Request) {
		now := c.now().UTC()
		answer(w, map[string]any{"now": now.Format("2006-01-02T15:04:05.000Z"), "unixMilliseconds": now.UnixMilli()})
	})
	mux.ServeHTTP(w, r)
}

func (c control) serveKill(w http.ResponseWriter, r *http.Request) {
	var changes Changes
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))
	dec.UseNumber()
	if err := dec.Decode(&changes); err != nil && !errors.Is(err, io.EOF) { // an empty body changes nothing
		http.Error(w, fmt.Sprintf("body: %v", err), http.StatusBadRequest)
		return
	}
	began := time.Now()
	if err := c.kill(changes); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"milliseconds": time.Since(began).Milliseconds()})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the suite may be gone
}
