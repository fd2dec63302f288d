from .runner import main

if __name__ == "__main__":  # and not when a process of a scenario reads this
    main()
