package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/go-amqp"
)

// share returns the i-th of n shares of total.
func share(total, i, n int) int {
	if i < total%n {
		return total/n + 1
	}
	return total / n
}

// openLinks opens the connections and the links of one direction.
func (r *run) openLinks(ctx context.Context, total int, open func(s *amqp.Session, share int) error) error {
	connections := min(r.Connections, total)
	links := min(r.Links*connections, total)
	for c := range connections {
		ours := share(links, c, connections)
		conn, err := r.dial(ctx, total > connections)
		if err != nil {
			return err
		}
		r.conns = append(r.conns, conn)
		s, err := conn.Conn().NewSession(ctx, nil)
		if err != nil {
			return fmt.Errorf("bench: session: %w", err)
		}
		for l := range ours {
			if err := open(s, share(share(total, c, connections), l, ours)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) openSenders(ctx context.Context) error {
	return r.openLinks(ctx, r.InFlight, func(s *amqp.Session, inFlight int) error {
		link, err := s.NewSender(ctx, r.queue, &amqp.SenderOptions{
			// like the Service Bus SDK
			SettlementMode:              amqp.SenderSettleModeMixed.Ptr(),
			RequestedReceiverSettleMode: amqp.ReceiverSettleModeFirst.Ptr(),
		})
		if err != nil {
			return fmt.Errorf("bench: send to %s: %w", r.queue, err)
		}
		w := &worker{}
		r.senders = append(r.senders, w)
		r.group.Add(1)
		r.sending.Add(1)
		go func() {
			defer r.group.Done()
			defer r.sending.Done()
			select {
			case <-r.starting:
			case <-ctx.Done():
				return
			}
			if inFlight == 1 {
				r.sendInTurn(ctx, link, w)
			} else {
				r.sendAhead(ctx, link, w, inFlight)
			}
		}()
		return nil
	})
}

// next waits until a send is due; ok is false if there are no more.
func (r *run) next(ctx context.Context) (due time.Time, ok bool) {
	if r.stop.Load() || ctx.Err() != nil {
		return time.Time{}, false
	}
	n := r.sends.Add(1)
	if r.Count > 0 && n > r.Count {
		return time.Time{}, false
	}
	if r.Rate <= 0 {
		return time.Now(), true
	}
	r.firstSend.Do(func() { r.sendsBegan = time.Now() })
	due = r.sendsBegan.Add(time.Duration(float64(n-1) / r.Rate * float64(time.Second)))
	if early := time.Until(due); early > 0 {
		select {
		case <-time.After(early):
		case <-ctx.Done():
			return time.Time{}, false
		}
	}
	return due, true
}

// fill sets the n-th message of a sender.
func (r *run) fill(m *amqp.Message, n int, due time.Time) {
	r.stamp(m.Data[0], due)
	if len(r.Properties) > 0 {
		m.ApplicationProperties = r.Properties[n%len(r.Properties)]
	}
}

func (r *run) message() *amqp.Message {
	m := amqp.NewMessage(make([]byte, r.Size))
	m.Header = &amqp.MessageHeader{Durable: true}
	return m
}

// sendInTurn waits for each answer before the next send.
func (r *run) sendInTurn(ctx context.Context, link *amqp.Sender, w *worker) {
	m := r.message()
	for n := 0; ; n++ {
		due, ok := r.next(ctx)
		if !ok {
			return
		}
		r.fill(m, n, due)
		if err := link.Send(ctx, m, nil); err != nil {
			r.fail(ctx, fmt.Errorf("bench: send: %w", err))
			return
		}
		r.count(w, due)
	}
}

// A pendingSend is a send that waits for its answer.
type pendingSend struct {
	receipt amqp.SendReceipt
	due     time.Time
}

// sendAhead keeps up to inFlight unanswered sends, with one goroutine that sends and one that takes
// the answers in order. A goroutine per send would cost the client more than the send.
func (r *run) sendAhead(ctx context.Context, link *amqp.Sender, w *worker, inFlight int) {
	slots := make(chan struct{}, inFlight)
	waiting := make(chan pendingSend, inFlight)
	var answers sync.WaitGroup
	answers.Go(func() {
		for b := range waiting {
			state, err := b.receipt.Wait(ctx)
			if _, accepted := state.(*amqp.StateAccepted); err == nil && !accepted {
				err = fmt.Errorf("%v", state)
			}
			if err != nil {
				r.fail(ctx, fmt.Errorf("bench: send: %w", err))
			} else {
				r.count(w, b.due)
			}
			<-slots
		}
	})
	defer answers.Wait()
	defer close(waiting)
	m := r.message()
	for n := 0; ; n++ {
		slots <- struct{}{}
		due, ok := r.next(ctx)
		if !ok {
			return
		}
		r.fill(m, n, due)
		receipt, err := link.SendWithReceipt(ctx, m, nil)
		if err != nil {
			r.fail(ctx, fmt.Errorf("bench: send: %w", err))
			return
		}
		waiting <- pendingSend{receipt, due}
	}
}

func (r *run) count(w *worker, since time.Time) {
	if r.recording.Load() {
		w.latency.Record(time.Since(since))
	}
	w.done.Add(1)
}

// openReceivers opens the receiving links with their acceptors. They receive until receiveCtx ends
// or, if nothing is sent, until the count is reached.
func (r *run) openReceivers(ctx, receiveCtx context.Context, send bool) error {
	counted := r.Count > 0 && !send
	mode := amqp.ReceiverSettleModeSecond // the broker answers settlements
	if r.Unanswered {
		mode = amqp.ReceiverSettleModeFirst
	}
	return r.openLinks(ctx, r.Acceptors, func(s *amqp.Session, acceptors int) error {
		link, err := s.NewReceiver(ctx, r.from, &amqp.ReceiverOptions{
			Credit:         int32(r.Credit),
			SettlementMode: mode.Ptr(),
		})
		if err != nil {
			return fmt.Errorf("bench: receive from %s: %w", r.from, err)
		}
		for range acceptors {
			w := &worker{}
			r.receivers = append(r.receivers, w)
			r.group.Go(func() {
				select {
				case <-r.starting:
				case <-receiveCtx.Done():
					return
				}
				r.accept(ctx, receiveCtx, link, w, counted)
			})
		}
		return nil
	})
}

// accept receives and completes messages one after the other.
func (r *run) accept(ctx, receiveCtx context.Context, link *amqp.Receiver, w *worker, counted bool) {
	for !counted || r.receives.Add(1) <= r.Count {
		if receiveCtx.Err() != nil {
			return
		}
		m, err := link.Receive(receiveCtx, nil)
		if err != nil {
			r.fail(receiveCtx, fmt.Errorf("bench: receive: %w", err))
			return
		}
		arrived := time.Now()
		sentAt, own := r.sentAt(m.GetData())
		if err := link.AcceptMessage(ctx, m); err != nil {
			r.fail(ctx, fmt.Errorf("bench: complete: %w", err))
			return
		}
		if own {
			if r.recording.Load() {
				w.endToEnd.Record(arrived.Sub(sentAt))
			}
			w.own.Add(1)
		}
		r.count(w, arrived)
	}
}
