// What these tests show is shown once they compile and link.
int main() {}
