package main

import "runtime"

// ordinary is a thread that keeps the priority with which the process began when the others give way (Linux). It is for what the file system does for the process:
// whoever is off the processor while it holds what the file system gives to one at a time has everybody wait who writes to the same one, the broker among
// them (docs/decisions/0074).
type ordinary struct {
	id   int // of the thread
	todo chan func()
}

func newOrdinary() *ordinary {
	o := &ordinary{todo: make(chan func())}
	begun := make(chan int)
	go func() {
		runtime.LockOSThread()
		begun <- threadID()
		for f := range o.todo {
			f()
		}
	}()
	o.id = <-begun
	return o
}

// do runs f on the thread.
func (o *ordinary) do(f func() error) (err error) {
	done := make(chan struct{})
	o.todo <- func() {
		defer close(done)
		err = f()
	}
	<-done
	return err
}
