package torture

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

var minutes = flag.Bool("minutes", false, "take the eight minutes that temporary entities need")

const (
	idle     = 5 * time.Minute  // the shortest that the service knows (S0-45)
	late     = 45 * time.Second // entities are looked at every 30 s
	idleText = "PT5M"
)

// TestTemporaryEntities (S0-43 to S0-49, MA-051) makes temporary entities with an SDK, in real time
// and over two kills: each is there for as long as it is used and five minutes more, and then it is
// gone with what it holds.
func TestTemporaryEntities(t *testing.T) {
	if !*minutes {
		t.Skip("takes eight minutes: -minutes")
	}
	dir := t.TempDir()
	u := &user{T: t, process: harness.NewProcess(harness.Build(t, dir), filepath.Join(dir, "data"), "--log-level", "warn")}
	defer func() { _ = u.process.Kill() }()
	u.start()

	began := time.Now()
	for _, name := range []string{"unused", "used"} {
		_, err := u.admin.CreateQueue(u.Context(), name, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{AutoDeleteOnIdle: new(idleText)}})
		u.must(err)
	}
	_, err := u.admin.CreateTopic(u.Context(), "news", nil)
	u.must(err)
	_, err = u.admin.CreateSubscription(u.Context(), "news", "reader", &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{AutoDeleteOnIdle: new(idleText)}})
	u.must(err)
	made := time.Now()
	u.send("used")
	u.receive("used")
	u.until(made.Add(20 * time.Second))
	u.kill()
	u.send("news") // what waits in a subscription does not keep it (S0-49)
	u.until(made.Add(2 * time.Minute))
	usedFrom := time.Now()
	u.send("used")
	u.receive("used")
	u.send("used") // this one stays
	usedTo := time.Now()
	u.until(usedTo.Add(45 * time.Second)) // when the log knows of it (semantics.md 7.7)
	u.kill()

	u.goes("unused", began.Add(idle), made.Add(idle+late))
	u.goes("news/reader", began.Add(idle), made.Add(idle+late))
	if !u.exists("news") {
		t.Error("the topic of a subscription that was not used is gone")
	}
	u.goes("used", usedFrom.Add(idle), usedTo.Add(idle+late))
	sender, err := u.client.NewSender("used", nil)
	u.must(err)
	var gone *azservicebus.Error
	if err := sender.SendMessage(u.Context(), &azservicebus.Message{}, nil); !errors.As(err, &gone) || gone.Code != azservicebus.CodeNotFound {
		t.Errorf("a send to a queue that is gone: %v", err)
	}
	_, err = u.admin.CreateQueue(u.Context(), "used", nil)
	u.must(err)
	if q, err := u.admin.GetQueueRuntimeProperties(u.Context(), "used", nil); err != nil || q.TotalMessageCount != 0 {
		t.Errorf("a queue of the same name: %+v, %v", q, err)
	}
	u.must(u.client.Close(u.Context()))
	u.must(u.process.Stop())
}

// user is a program that uses temporary entities.
type user struct {
	*testing.T
	process *harness.Process
	client  *azservicebus.Client
	admin   *admin.Client
}

func (u *user) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u *user) start() {
	u.Helper()
	_, err := u.process.Start()
	u.must(err)
	if u.client != nil {
		return // it connects again by itself
	}
	pem, err := os.ReadFile(u.process.Authority())
	u.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	u.client, err = azservicebus.NewClientFromConnectionString(u.process.ConnectionString(), nil)
	u.must(err)
	u.admin, err = admin.NewClientFromConnectionString(u.process.ConnectionString(), &admin.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}})
	u.must(err)
}

func (u *user) kill() {
	u.Helper()
	u.must(u.process.Kill())
	u.start()
}

func (u *user) send(entity string) {
	u.Helper()
	s, err := u.client.NewSender(entity, nil)
	u.must(err)
	u.must(s.SendMessage(u.Context(), &azservicebus.Message{Body: []byte(entity)}, nil))
	u.must(s.Close(u.Context()))
}

func (u *user) receive(queue string) {
	u.Helper()
	r, err := u.client.NewReceiverForQueue(queue, nil)
	u.must(err)
	ctx, cancel := context.WithTimeout(u.Context(), 30*time.Second)
	defer cancel()
	messages, err := r.ReceiveMessages(ctx, 1, nil)
	u.must(err)
	u.must(r.CompleteMessage(u.Context(), messages[0], nil))
	u.must(r.Close(u.Context()))
}

func (u *user) until(at time.Time) { time.Sleep(time.Until(at)) }

// exists looks through the management API, which is no use of an entity.
func (u *user) exists(path string) bool {
	u.Helper()
	if path == "news/reader" {
		s, err := u.admin.GetSubscription(u.Context(), "news", "reader", nil)
		u.must(err)
		return s != nil
	}
	if path == "news" {
		topic, err := u.admin.GetTopic(u.Context(), path, nil)
		u.must(err)
		return topic != nil
	}
	q, err := u.admin.GetQueue(u.Context(), path, nil)
	u.must(err)
	return q != nil
}

// goes waits until an entity is gone, and says when that was too early or too late.
func (u *user) goes(path string, from, to time.Time) {
	u.Helper()
	for u.exists(path) {
		if time.Now().After(to) {
			u.Errorf("%s is still there %s after its time", path, time.Since(from).Round(time.Second))
			return
		}
		time.Sleep(time.Second)
	}
	if now := time.Now(); now.Before(from) {
		u.Errorf("%s is gone %s before its time", path, from.Sub(now).Round(time.Second))
	} else {
		u.Logf("%s went %s after it was idle for %s", path, now.Sub(from).Round(time.Second), idle)
	}
}
